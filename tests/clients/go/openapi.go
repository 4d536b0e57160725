package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"
)

const (
	v3Protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	gvkKey     = "x-kubernetes-group-version-kind"
)

// checkOpenAPIV3 reads every document by every way client-go has.
func (s *suite) checkOpenAPIV3() {
	root := openapi3.NewRoot(s.client.OpenAPIV3())
	versions, err := root.GroupVersions()
	if !s.noError(err, "openapi3 GroupVersions") {
		return
	}
	want := map[schema.GroupVersion]bool{}
	for gvk := range s.kinds {
		want[gvk.GroupVersion()] = true
	}
	for gv := range want {
		s.check(slices.Contains(versions, gv), "openapi3 has no document for %s", gv)
	}
	for _, gv := range versions {
		s.check(want[gv], "openapi3 has a document for %s, discovery does not know it", gv)
		document, err := root.GVSpec(gv)
		if !s.noError(err, "GVSpec "+gv.String()) {
			continue
		}
		s.checkDocument(gv, document)
		asMap, err := root.GVSpecAsMap(gv)
		if s.noError(err, "GVSpecAsMap "+gv.String()) {
			paths, _ := asMap["paths"].(map[string]any)
			s.check(len(paths) == len(document.Paths.Paths), "%s: GVSpecAsMap has %d paths, GVSpec %d",
				gv, len(paths), len(document.Paths.Paths))
		}
	}

	// Besides the group versions: discovery endpoints, version, and so on.
	paths, err := s.client.OpenAPIV3().Paths()
	if !s.noError(err, "openapi v3 Paths") {
		return
	}
	s.matchesRecorded("openapi-v3-keys.txt", slices.Collect(maps.Keys(paths)))
	for key, gv := range paths {
		text, err := gv.Schema("application/json")
		if !s.noError(err, "JSON of "+key) {
			continue
		}
		document := &spec3.OpenAPI{}
		if !s.noError(json.Unmarshal(text, document), "decode "+key) {
			continue
		}
		s.checkRoundTrip(key, document)
		binary, err := gv.Schema(v3Protobuf)
		if !s.noError(err, "protobuf of "+key) {
			continue
		}
		message := &openapi_v3.Document{}
		if s.noError(proto.Unmarshal(binary, message), "decode protobuf of "+key) {
			s.checkSameDocument(key, document, message)
		}
	}
}

// checkDocument asks of a document what kubectl explain and apply ask: a
// schema with the group-version-kind of every served kind, and no dangling
// reference.
func (s *suite) checkDocument(gv schema.GroupVersion, document *spec3.OpenAPI) {
	found, dangling := map[schema.GroupVersionKind]int{}, []string{}
	for name, component := range document.Components.Schemas {
		for _, gvk := range groupVersionKinds(component) {
			found[gvk]++
		}
		forEachReference(component, func(reference string) {
			target := strings.TrimPrefix(reference, "#/components/schemas/")
			if _, ok := document.Components.Schemas[target]; !ok {
				dangling = append(dangling, name+" -> "+reference)
			}
		})
	}
	s.check(len(dangling) == 0, "%s: references to what is not in the document: %v", gv, dangling)
	for gvk := range s.kinds {
		if gvk.GroupVersion() == gv {
			s.check(found[gvk] == 1, "%s: %d schemas say they are %s", gv, found[gvk], gvk.Kind)
		}
	}
}

// checkRoundTrip is upstream's own end-to-end test of a document: decoded,
// encoded and decoded again it is the same.
func (s *suite) checkRoundTrip(key string, document *spec3.OpenAPI) {
	text, err := json.Marshal(document)
	if !s.noError(err, "encode "+key) {
		return
	}
	again := &spec3.OpenAPI{}
	if s.noError(json.Unmarshal(text, again), "decode again "+key) {
		s.check(reflect.DeepEqual(document, again), "%s changes when decoded and encoded again", key)
	}
}

// checkSameDocument compares names in the JSON and the protobuf form.
func (s *suite) checkSameDocument(key string, document *spec3.OpenAPI, message *openapi_v3.Document) {
	s.check(message.GetOpenapi() == document.Version, "%s: openapi %q in protobuf", key, message.GetOpenapi())
	paths := []string{}
	for _, path := range message.GetPaths().GetPath() {
		paths = append(paths, path.GetName())
	}
	s.sameLines(key+" paths in protobuf", paths, slices.Collect(maps.Keys(document.Paths.Paths)))
	schemas, want := []string{}, []string{}
	for _, named := range message.GetComponents().GetSchemas().GetAdditionalProperties() {
		schemas = append(schemas, named.GetName())
	}
	if document.Components != nil {
		want = slices.Collect(maps.Keys(document.Components.Schemas))
	}
	s.sameLines(key+" schemas in protobuf", schemas, want)
}

// checkOpenAPIV2 reads the v2 protobuf as kubectl up to 1.26 does, and
// compares it with the JSON form.
func (s *suite) checkOpenAPIV2() {
	message, err := s.client.OpenAPISchema()
	if !s.noError(err, "OpenAPISchema") {
		return
	}
	models, err := kubectlopenapi.NewOpenAPIData(message)
	if s.noError(err, "kube-openapi model of v2") {
		for _, gvk := range s.sortedKinds() {
			s.check(models.LookupResource(gvk) != nil, "v2 has no definition for %s", gvk)
			if slices.Contains(s.kinds[gvk], "patch") {
				s.check(slices.Contains(models.GetConsumes(gvk, "PATCH"), "application/strategic-merge-patch+json"),
					"v2: PATCH of %s does not take a strategic merge patch", gvk)
			}
		}
	}

	text, err := s.client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").
		Do(context.Background()).Raw()
	if !s.noError(err, "GET /openapi/v2") {
		return
	}
	fromJSON, fromProtobuf := &spec.Swagger{}, &spec.Swagger{}
	s.noError(json.Unmarshal(text, fromJSON), "decode /openapi/v2")
	_, err = fromProtobuf.FromGnostic(message)
	s.noError(err, "convert v2 protobuf")
	s.check(reflect.DeepEqual(fromJSON.Paths, fromProtobuf.Paths), "v2: paths differ between JSON and protobuf")
	s.check(reflect.DeepEqual(fromJSON.Parameters, fromProtobuf.Parameters), "v2: parameters differ between JSON and protobuf")
	for name, definition := range fromJSON.Definitions {
		other, ok := fromProtobuf.Definitions[name]
		s.check(ok && reflect.DeepEqual(definition, other), "v2: %s differs between JSON and protobuf", name)
	}
}

// checkQueryParameters asks the verifiers kubectl and helm use to decide on
// server-side validation: they must find it for everything that can be patched.
func (s *suite) checkQueryParameters() {
	client, err := dynamic.NewForConfig(s.config)
	if !s.noError(err, "dynamic client") {
		return
	}
	const parameter = resource.QueryParamFieldValidation
	verifiers := map[string]resource.Verifier{
		"v2": resource.NewQueryParamVerifier(client, kubectlopenapi.NewOpenAPIGetter(s.client), parameter),
		"v3": resource.NewQueryParamVerifierV3(client, s.client.OpenAPIV3(), parameter),
	}
	for _, gvk := range s.sortedKinds() {
		if !slices.Contains(s.kinds[gvk], "patch") {
			continue
		}
		for version, verifier := range verifiers {
			s.noError(verifier.HasSupport(gvk), version+" "+string(parameter)+" of "+gvk.String())
		}
	}
}

// checkHTTPCache reads all documents through client-go's disk cache twice: the
// second time no hashed URL may reach the wire.
func (s *suite) checkHTTPCache() {
	folder, err := os.MkdirTemp("", "httpcache")
	if !s.noError(err, "temporary folder") {
		return
	}
	defer os.RemoveAll(folder)
	log := &requestLog{}
	for _, pass := range []string{"first", "second"} {
		config := rest.CopyConfig(s.config)
		config.Wrap(log.wrap)
		log.clear()
		client, err := disk.NewCachedDiscoveryClientForConfig(config, filepath.Join(folder, "discovery"),
			filepath.Join(folder, "http"), time.Hour)
		if !s.noError(err, "disk cached client") {
			return
		}
		paths, err := client.OpenAPIV3().Paths()
		if !s.noError(err, pass+" read of the v3 root through the cache") {
			return
		}
		for key, gv := range paths {
			_, err := gv.Schema("application/json")
			s.noError(err, pass+" cached read of "+key)
		}
		if pass == "first" {
			s.check(len(log.seen()) == len(paths)+1, "first cached pass took %d requests for %d documents and the root",
				len(log.seen()), len(paths))
			continue
		}
		s.check(len(log.seen()) == 1 && strings.HasSuffix(log.seen()[0], " /openapi/v3"),
			"second cached pass went to the wire for more than the root: %v", log.seen())
	}
	s.checkNotModified()
}

// checkNotModified asks with the ETag of the first answer.
func (s *suite) checkNotModified() {
	httpClient, err := rest.HTTPClientFor(s.config)
	if !s.noError(err, "HTTP client") {
		return
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1"} {
		url := strings.TrimSuffix(s.config.Host, "/") + path
		first, err := httpClient.Get(url)
		if !s.noError(err, "GET "+path) {
			continue
		}
		first.Body.Close()
		tag := first.Header.Get("ETag")
		s.check(strings.HasPrefix(tag, `"`), "GET %s: ETag %q", path, tag)
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if !s.noError(err, "request") {
			continue
		}
		request.Header.Set("If-None-Match", tag)
		second, err := httpClient.Do(request)
		if s.noError(err, "conditional GET "+path) {
			second.Body.Close()
			s.check(second.StatusCode == http.StatusNotModified, "GET %s with its ETag: %d", path, second.StatusCode)
		}
	}
}

// groupVersionKinds reads the extension; every entry must have all three keys.
func groupVersionKinds(component *spec.Schema) []schema.GroupVersionKind {
	list, _ := component.Extensions[gvkKey].([]any)
	kinds := []schema.GroupVersionKind{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		group, hasGroup := entry["group"].(string)
		version, hasVersion := entry["version"].(string)
		kind, hasKind := entry["kind"].(string)
		if hasGroup && hasVersion && hasKind && len(entry) == 3 {
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}
	return kinds
}

func forEachReference(s *spec.Schema, visit func(string)) {
	if s == nil {
		return
	}
	if reference := s.Ref.String(); reference != "" {
		visit(reference)
	}
	for _, list := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			forEachReference(&list[i], visit)
		}
	}
	for _, property := range s.Properties {
		forEachReference(&property, visit)
	}
	if s.Items != nil {
		forEachReference(s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil {
		forEachReference(s.AdditionalProperties.Schema, visit)
	}
}
