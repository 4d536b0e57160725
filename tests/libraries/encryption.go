package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/kms/pkg/service"
)

// encryption reads a configuration, and opens or makes what is stored of a value by it.
func encryption(line json.RawMessage) (any, error) {
	var question struct {
		Config   json.RawMessage `json:"config"`
		Resource string          `json:"resource"`
		Context  string          `json:"context"`
		Value    *string         `json:"value"`
		Stored   string          `json:"stored"`
		// Plugins by the names of their providers.
		Plugins map[string]plugin `json:"plugins"`
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
	for name, plugin := range question.Plugins {
		defer encryptionconfig.SetKDFForTests(name, !plugin.OldKeys)()
	}
	encryptionconfig.EnvelopeKMSv2ServiceFactory = func(_ context.Context, _, name string, _ time.Duration) (service.Service, error) {
		found, ok := question.Plugins[name]
		if !ok {
			return nil, fmt.Errorf("there is no plugin %q", name)
		}
		return found, nil
	}
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file.Name(), false, "")
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	if question.Resource == "" {
		for _, check := range config.HealthChecks {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil)
			if err != nil {
				return nil, err
			}
			if err := check.Check(request); err != nil {
				return map[string]any{"unhealthy": check.Name() + ": " + err.Error()}, nil
			}
		}
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

// plugin is a KMS plugin whose keys are their names, and whose secrets are no secrets.
type plugin struct {
	Healthz string `json:"healthz"`
	Version string `json:"version"`
	KeyID   string `json:"keyID"`
	// What it adds to what it encrypts.
	Annotations map[string][]byte `json:"annotations"`
	// Whether keys are made as they were before seeds.
	OldKeys bool `json:"oldKeys"`
}

func (p plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: p.Version, Healthz: p.Healthz, KeyID: p.KeyID}, nil
}

func (p plugin) Encrypt(_ context.Context, _ string, plain []byte) (*service.EncryptResponse, error) {
	return &service.EncryptResponse{Ciphertext: turned(plain, p.KeyID), KeyID: p.KeyID, Annotations: p.Annotations}, nil
}

func (p plugin) Decrypt(_ context.Context, _ string, request *service.DecryptRequest) ([]byte, error) {
	return turned(request.Ciphertext, request.KeyID), nil
}

// turned has every byte changed by the name of a key; a second time it is what it was.
func turned(bytes []byte, key string) []byte {
	by := byte(0x5a)
	for _, letter := range []byte(key) {
		by ^= letter
	}
	out := make([]byte, len(bytes))
	for at := range bytes {
		out[at] = bytes[at] ^ by
	}
	return out
}
