package main

import (
	"encoding/hex"
	"encoding/json"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// gnosticV2 gives the bytes of a document, or nothing if it is refused.
func gnosticV2(line json.RawMessage) (any, error) {
	text, err := sorted(line)
	if err != nil {
		return nil, err
	}
	document, err := openapi_v2.ParseDocument(text)
	return bytesOf(document, err)
}

func gnosticV3(line json.RawMessage) (any, error) {
	text, err := sorted(line)
	if err != nil {
		return nil, err
	}
	document, err := openapi_v3.ParseDocument(text)
	return bytesOf(document, err)
}

func bytesOf(document proto.Message, refused error) (any, error) {
	if refused != nil {
		return nil, nil
	}
	written, err := proto.MarshalOptions{Deterministic: true}.Marshal(document)
	return hex.EncodeToString(written), err
}
