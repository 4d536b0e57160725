package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The group of each is NAME.example.com, the version v1, and the kind what a
// liar calls it.
var rogues = map[string]func(group string) http.HandlerFunc{
	"liar":    liar,
	"endless": endless,
	"garbled": garbled,
	// Nothing is wrong with this one but its certificate.
	"expired": honest,
}

// Per second, of a body without an end: fast enough to fill memory within a poll
// that does not look, slow enough for the machine of who runs this on upstream.
const endlessBytes = 8 << 20

func runRogue(arguments []string) error {
	flags := flag.NewFlagSet("rogue", flag.ExitOnError)
	pki := flags.String("pki", "", "folder that `helper pki` wrote")
	addresses := map[string]*string{}
	for name := range rogues {
		addresses[name] = flags.String(name, "", "address for the front")
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	ended := make(chan error)
	for name, rogue := range rogues {
		certificate, err := tls.LoadX509KeyPair(filepath.Join(*pki, name+".crt"), filepath.Join(*pki, name+".key"))
		if err != nil {
			return err
		}
		server := &http.Server{
			Addr:      *addresses[name],
			Handler:   rogue(name + ".example.com"),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
			ErrorLog:  log.New(os.Stderr, name+": ", 0),
		}
		go func() { ended <- server.ListenAndServeTLS("", "") }()
	}
	return <-ended
}

// honest answers as a small server of one kind does.
func honest(group string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/" + group + "/v1":
			answer(w, resources(group))
		case "/openapi/v3":
			answer(w, root("apis/"+group+"/v1"))
		case "/openapi/v3/apis/" + group + "/v1":
			answer(w, document(group))
		case "/apis/" + group + "/v1/widgets/one":
			answer(w, map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "one"}})
		default:
			http.NotFound(w, r)
		}
	}
}

// liar claims what is not its own: in the root of OpenAPI, in v2, and in both
// forms of discovery.
func liar(group string) http.HandlerFunc {
	honestly := honest(group)
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/openapi/v3":
			answer(w, root("apis/"+group+"/v1", "version", "apis", "apis/apps/v1", "apis/stolen.example.com/v1"))
		case r.URL.Path == "/openapi/v2":
			get := func(id string) map[string]any {
				return map[string]any{"get": map[string]any{"operationId": id, "responses": map[string]any{"200": map[string]any{"description": "lie"}}}}
			}
			answer(w, map[string]any{"swagger": "2.0", "info": map[string]any{"title": "lies", "version": "1"}, "paths": map[string]any{
				"/apis/" + group + "/v1/widgets":      get("listWidgets"),
				"/apis/apps/v1/lies":                  get("listLies"),
				"/apis/stolen.example.com/v1/widgets": get("listStolen"),
				"/version/":                           get("lieAboutVersion"),
			}})
		case r.URL.Path == "/apis" && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList"):
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			json.NewEncoder(w).Encode(map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []any{
				discovered(group, "v1"), discovered("apps", "v1"), discovered("stolen.example.com", "v1"), discovered(group, "v2"),
			}})
		default:
			honestly(w, r)
		}
	}
}

// endless never comes to the end of any answer that a poller asks for.
func endless(group string) http.HandlerFunc {
	honestly := honest(group)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/"+group+"/v1" || strings.HasPrefix(r.URL.Path, "/apis/"+group+"/v1/") {
			honestly(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"paths":{"`)
		piece := []byte(strings.Repeat("x", endlessBytes/100))
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// garbled answers everything with 200 and no JSON.
func garbled(string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"paths":[{]},"kind":7`)
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}

func resources(group string) map[string]any {
	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group + "/v1", "resources": []any{
		map[string]any{"name": "widgets", "singularName": "widget", "namespaced": false, "kind": "Widget", "verbs": []string{"get", "list"}},
	}}
}

func discovered(group, version string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": group}, "versions": []any{map[string]any{
		"version": version, "freshness": "Current", "resources": []any{map[string]any{
			"resource": "widgets", "singularResource": "widget", "scope": "Cluster", "verbs": []string{"get", "list"},
			"responseKind": map[string]any{"group": group, "version": version, "kind": "Widget"},
		}},
	}}}
}

func root(keys ...string) map[string]any {
	paths := map[string]any{}
	for _, key := range keys {
		paths[key] = map[string]any{"serverRelativeURL": "/openapi/v3/" + key + "?hash=ROGUE"}
	}
	return map[string]any{"paths": paths}
}

func document(group string) map[string]any {
	return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": group, "version": "1"}, "paths": map[string]any{}}
}
