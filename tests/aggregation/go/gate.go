package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// What the gate does to requests before it passes them on. The zero value does nothing.
type mode struct {
	// Delay before a request is passed on.
	Delay time.Duration
	// Hang: requests are never answered.
	Hang bool
	// HideV3: the server is one from before /openapi/v3.
	HideV3 bool
	// HideAggregated: the server is one from before aggregated discovery.
	HideAggregated bool
	// Redirect: every answer is a redirect.
	Redirect bool
}

// What the gate saw of a request.
type seen struct {
	Time        time.Time
	Method      string
	URI         string
	Host        string
	Protocol    string
	TLSName     string
	Certificate string
	Header      http.Header
}

type gate struct {
	proxy *httputil.ReverseProxy

	mutex sync.Mutex
	mode  mode
	seen  []seen
}

// Of requests remembered; the suite asks for them often enough.
const mostSeen = 10_000

func runGate(arguments []string) error {
	flags := flag.NewFlagSet("gate", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "addresses for the front, separated by commas")
	control := flags.String("control", "127.0.0.1:0", "address for the suite: PUT /mode, GET /seen")
	backend := flags.String("backend", "", "address of the extension server")
	pki := flags.String("pki", "", "folder that `helper pki` wrote")
	name := flags.String("name", "", "whose serving certificate of that folder to use")
	if err := flags.Parse(arguments); err != nil {
		return err
	}

	certificate, err := tls.LoadX509KeyPair(filepath.Join(*pki, *name+".crt"), filepath.Join(*pki, *name+".key"))
	if err != nil {
		return err
	}
	// The server behind trusts the identity headers only of who has this.
	front, err := tls.LoadX509KeyPair(filepath.Join(*pki, "front-proxy.crt"), filepath.Join(*pki, "front-proxy.key"))
	if err != nil {
		return err
	}
	fronts, err := pool(filepath.Join(*pki, "front-ca.crt"))
	if err != nil {
		return err
	}
	servers, err := pool(filepath.Join(*pki, "serving-ca.crt"))
	if err != nil {
		return err
	}

	g := &gate{proxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: *backend})}
	g.proxy.FlushInterval = -1
	g.proxy.Transport = &http.Transport{
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{front}, RootCAs: servers, ServerName: *name + ".agg.svc"},
		ForceAttemptHTTP2: true,
	}
	g.proxy.ErrorLog = log.New(os.Stderr, "gate: ", 0)

	controls, err := net.Listen("tcp", *control)
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.Serve(controls, http.HandlerFunc(g.control))) }()
	server := &http.Server{
		Handler:   g,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: fronts},
		ErrorLog:  log.New(os.Stderr, "gate: ", 0),
	}
	ended := make(chan error)
	for _, address := range strings.Split(*listen, ",") {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() { ended <- server.ServeTLS(listener, "", "") }()
	}
	return <-ended
}

func pool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	certificates := x509.NewCertPool()
	if !certificates.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return certificates, nil
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := g.remember(r)
	wait := now.Delay
	if now.Hang {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
	case <-r.Context().Done():
		return
	}
	switch {
	case r.Header.Get("Upgrade") == echo:
		echoes(w)
	case now.Redirect:
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case now.HideV3 && strings.HasPrefix(r.URL.Path, "/openapi/v3"):
		http.NotFound(w, r)
	case now.HideAggregated && (r.URL.Path == "/apis" || r.URL.Path == "/api") && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList"):
		http.Error(w, "not acceptable", http.StatusNotAcceptable)
	default:
		g.proxy.ServeHTTP(w, r)
	}
}

// What a client may upgrade to: the gate itself then sends back what it gets. The
// server behind has nothing of the kind.
const echo = "echo"

func echoes(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "an upgrade needs HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	connection, buffered, err := hijacker.Hijack()
	if err != nil {
		log.Print(err)
		return
	}
	defer connection.Close()
	fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", echo)
	if _, err := io.Copy(connection, buffered); err != nil {
		log.Print(err)
	}
}

func (g *gate) remember(r *http.Request) mode {
	s := seen{Time: time.Now(), Method: r.Method, URI: r.RequestURI, Host: r.Host, Protocol: r.Proto, Header: r.Header.Clone()}
	if r.TLS != nil {
		s.TLSName = r.TLS.ServerName
		if len(r.TLS.PeerCertificates) > 0 {
			s.Certificate = r.TLS.PeerCertificates[0].Subject.CommonName
		}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if len(g.seen) < mostSeen {
		g.seen = append(g.seen, s)
	}
	return g.mode
}

// PUT /mode sets the whole mode; GET /seen hands over the requests since the last GET.
func (g *gate) control(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "PUT /mode":
		var m mode
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		g.mode = m
	case "GET /seen":
		requests := g.seen
		g.seen = nil
		if err := json.NewEncoder(w).Encode(requests); err != nil {
			log.Print(err)
		}
	default:
		http.NotFound(w, r)
	}
}
