// Answers questions with the libraries that kube-apiserver 1.36.4 is made of.
//
//	go run . SUITE < questions > answers
//
// Questions and answers are JSON, one a line. tests/record.py asks.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
)

var suites = map[string]func(question json.RawMessage) (any, error){
	"fields":    fieldSets,
	"typed":     typedObjects,
	"sequences": sequence,
	"read":      readYAML,
	"written":   writeYAML,
	"quantity":  quantity,
	"selectors": selector,
	"times":     moment,

	"certificates": certificates,
	"encryption":   encryption,
	"gnostic_v2":   gnosticV2,
	"gnostic_v3":   gnosticV3,
	"tokens":       tokens,
}

func main() {
	answer := suites[os.Args[1]]
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		found, err := answer(in.Bytes())
		if err != nil {
			log.Fatalf("%s: %v", in.Bytes(), err)
		}
		if err := encoder.Encode(found); err != nil {
			log.Fatal(err)
		}
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
}
