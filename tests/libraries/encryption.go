package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

// encryption reads a configuration, and opens or makes what is stored of a value by it.
func encryption(line json.RawMessage) (any, error) {
	var question struct {
		Config   json.RawMessage `json:"config"`
		Resource string          `json:"resource"`
		Context  string          `json:"context"`
		Value    *string         `json:"value"`
		Stored   string          `json:"stored"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "encryption")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(question.Config); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file.Name(), false, "")
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	if question.Resource == "" {
		return map[string]any{}, nil
	}
	transformer := transformerFor(config.Transformers, schema.ParseGroupResource(question.Resource))
	place := value.DefaultContext(question.Context)
	if question.Stored == "" {
		stored, err := transformer.TransformToStorage(ctx, []byte(*question.Value), place)
		if err != nil {
			return nil, err
		}
		question.Stored = base64.StdEncoding.EncodeToString(stored)
	}
	stored, err := base64.StdEncoding.DecodeString(question.Stored)
	if err != nil {
		return nil, err
	}
	found, stale, err := transformer.TransformFromStorage(ctx, stored, place)
	if err != nil {
		return map[string]any{"stored": question.Stored, "error": err.Error()}, nil
	}
	if strings.ToValidUTF8(string(found), "") != string(found) {
		return nil, fmt.Errorf("what comes of it is no text")
	}
	return map[string]any{"stored": question.Stored, "value": string(found), "stale": stale}, nil
}

// transformerFor is what says most about a resource.
func transformerFor(known map[schema.GroupResource]value.Transformer, resource schema.GroupResource) value.Transformer {
	for _, rule := range []schema.GroupResource{resource, {Group: resource.Group, Resource: "*"}, {Group: "*", Resource: "*"}} {
		if found := known[rule]; found != nil {
			return found
		}
	}
	return identity.NewEncryptCheckTransformer()
}
