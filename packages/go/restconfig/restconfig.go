// Package restconfig is what client-go and controller-runtime need of a server: its rest.Config. It is a module of its own, so
// that whoever needs none of it does not have client-go.
package restconfig

import (
	"testing"

	"k8s.io/client-go/rest"

	"sternpost.dev/go"
)

// Of gives the configuration of a user who may do everything.
func Of(server *sternpost.Server) *rest.Config {
	return &rest.Config{
		Host:            server.URL,
		BearerToken:     server.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA},
		// A test should not wait for the client's own limits.
		QPS: -1,
	}
}

// Start is sternpost.Start and Of.
func Start(t testing.TB, options ...sternpost.Option) *rest.Config {
	t.Helper()
	return Of(sternpost.Start(t, options...))
}
