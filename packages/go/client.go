package sternpost

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
)

// A client that trusts this server alone, and asks no proxy.
func (s *Server) client() (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CA) {
		return nil, errors.New("the server's authority is no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}
