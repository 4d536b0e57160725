package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificates makes authorities and chains that are like the given ones, with keys of their own, some
// seconds later. Of a chain whose authority is not given, the authority is another one of the same name.
func certificates(line json.RawMessage) (any, error) {
	var question struct {
		Authorities map[string]string
		Chains      map[string]string
		Shift       int64
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	shift := time.Duration(question.Shift) * time.Second
	type pair struct{ before, now issuer }
	authorities := map[string]pair{}
	answer := struct {
		Authorities map[string]string            `json:"authorities"`
		Chains      map[string]map[string]string `json:"chains"`
	}{map[string]string{}, map[string]map[string]string{}}
	for name, text := range question.Authorities {
		before, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		now, err := alike(before[0], nil, shift)
		if err != nil {
			return nil, err
		}
		authorities[name] = pair{issuer{certificate: before[0]}, *now}
		answer.Authorities[name] = textOf(now.certificate)
	}
	for name, text := range question.Chains {
		chain, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		last := chain[len(chain)-1]
		by, err := foreign(last)
		if err != nil {
			return nil, err
		}
		for _, authority := range authorities {
			if authority.before.certificate.CheckSignature(last.SignatureAlgorithm, last.RawTBSCertificate, last.Signature) == nil {
				by = &authority.now
			}
		}
		var texts string
		for index := len(chain) - 1; index >= 0; index-- {
			if by, err = alike(chain[index], by, shift); err != nil {
				return nil, err
			}
			texts = textOf(by.certificate) + texts
		}
		key, err := x509.MarshalPKCS8PrivateKey(by.key)
		if err != nil {
			return nil, err
		}
		answer.Chains[name] = map[string]string{
			"chain": texts, "key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		}
	}
	return answer, nil
}

type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// alike has the names, the time and the extensions of a certificate. Without an issuer it signs itself.
func alike(certificate *x509.Certificate, by *issuer, shift time.Duration) (*issuer, error) {
	return sign(&x509.Certificate{
		SerialNumber: certificate.SerialNumber, RawSubject: certificate.RawSubject, ExtraExtensions: certificate.Extensions,
		NotBefore: certificate.NotBefore.Add(shift), NotAfter: certificate.NotAfter.Add(shift),
	}, by)
}

// foreign is an authority with the name of the one that signed a certificate.
func foreign(certificate *x509.Certificate) (*issuer, error) {
	return sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), RawSubject: certificate.RawIssuer, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, nil)
}

func sign(template *x509.Certificate, by *issuer) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if by == nil {
		by = &issuer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, &key.PublicKey, by.key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &issuer{certificate, key}, err
}

func parse(text string) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return found, nil
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		found = append(found, certificate)
	}
}

func textOf(certificate *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
}
