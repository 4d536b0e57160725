// Reads objects as JSON, one a line, and answers each with the protobuf bytes
// client-go writes for it and the JSON it prints of those bytes.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"

	admission "k8s.io/api/admission/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func main() {
	all := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		admission.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme, meta.AddMetaToScheme,
	} {
		if err := add(all); err != nil {
			log.Fatal(err)
		}
	}
	text := utiljson.NewSerializerWithOptions(utiljson.DefaultMetaFactory, all, all, utiljson.SerializerOptions{})
	wire := protobuf.NewSerializer(all, all)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		answer, err := answer(text, wire, in.Bytes())
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintln(out, string(line))
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
}

func answer(text, wire runtime.Serializer, line []byte) (map[string]any, error) {
	object, gvk, err := text.Decode(line, nil, nil)
	if err != nil {
		return nil, err
	}
	var written bytes.Buffer
	if err := wire.Encode(object, &written); err != nil {
		return nil, err
	}
	read, _, err := wire.Decode(written.Bytes(), nil, nil)
	if err != nil {
		return nil, err
	}
	read.GetObjectKind().SetGroupVersionKind(*gvk)
	printed, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	return map[string]any{"bytes": hex.EncodeToString(written.Bytes()), "json": json.RawMessage(printed)}, nil
}
