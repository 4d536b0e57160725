package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 24 * time.Hour

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// writePKI writes three authorities, each for one purpose, and what they sign: the
// front's certificate towards extension servers, and one serving certificate per
// name, valid for NAME.agg.svc, and no longer for the name `expired`. The pair of keys signs tokens of service accounts.
func writePKI(folder string, names []string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	front, err := newAuthority(folder, "front-ca")
	if err != nil {
		return err
	}
	if _, err = newAuthority(folder, "client-ca"); err != nil {
		return err
	}
	serving, err := newAuthority(folder, "serving-ca")
	if err != nil {
		return err
	}
	if err := front.issue(folder, "front-proxy", x509.ExtKeyUsageClientAuth, nil); err != nil {
		return err
	}
	for _, name := range names {
		if err := serving.issue(folder, name, x509.ExtKeyUsageServerAuth, []string{name + ".agg.svc", "localhost"}); err != nil {
			return err
		}
	}
	return tokenKeys(folder)
}

func newAuthority(folder, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate, key}, writePEM(folder, name+".crt", "CERTIFICATE", der)
}

func (a *authority) issue(folder, name string, usage x509.ExtKeyUsage, hosts []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	end := time.Now().Add(lifetime)
	if name == "expired" {
		end = time.Now().Add(-time.Minute)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{usage},
		DNSNames:     hosts,
	}
	if hosts != nil {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if err := writePEM(folder, name+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(folder, name+".key", "PRIVATE KEY", private)
}

func tokenKeys(folder string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := writePEM(folder, "token.pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return writePEM(folder, "token.key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func writePEM(folder, name, kind string, bytes []byte) error {
	return os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}
