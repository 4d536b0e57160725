package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// tokens makes keys and tokens that are like the given ones, each token some seconds later. What no key
// has signed, a stranger's key signs.
func tokens(line json.RawMessage) (any, error) {
	var question struct {
		Keys   []map[string]any
		Tokens []string
		Shifts []int64
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	signers := []signer{}
	// A key may be published twice.
	replaced := map[string]map[string]any{}
	for _, published := range question.Keys {
		before := fmt.Sprint(published["n"], published["x"])
		if earlier := replaced[before]; earlier != nil {
			for _, name := range []string{"n", "e", "x", "y"} {
				if published[name] != nil {
					published[name] = earlier[name]
				}
			}
			continue
		}
		made, err := signerLike(published)
		if err != nil {
			return nil, err
		}
		signers = append(signers, made)
		replaced[before] = published
	}
	made := []string{}
	for index, token := range question.Tokens {
		again, err := again(token, question.Shifts[index], signers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", token, err)
		}
		made = append(made, again)
	}
	return map[string]any{"keys": question.Keys, "tokens": made}, nil
}

type signer struct {
	before crypto.PublicKey
	now    crypto.Signer
}

// signerLike replaces the public key of a JWK by one whose private key is known.
func signerLike(published map[string]any) (signer, error) {
	member := func(name string) []byte {
		text, _ := published[name].(string)
		decoded, _ := base64.RawURLEncoding.DecodeString(text)
		return decoded
	}
	put := func(name string, value []byte) { published[name] = base64.RawURLEncoding.EncodeToString(value) }
	number := func(name string) *big.Int { return new(big.Int).SetBytes(member(name)) }
	switch published["kty"] {
	case "RSA":
		before := &rsa.PublicKey{N: number("n"), E: int(number("e").Int64())}
		now, err := rsa.GenerateKey(rand.Reader, before.N.BitLen())
		if err != nil {
			return signer{}, err
		}
		put("n", now.N.Bytes())
		put("e", big.NewInt(int64(now.E)).Bytes())
		return signer{before, now}, nil
	case "EC":
		curve := map[any]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[published["crv"]]
		now, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			return signer{}, err
		}
		before := &ecdsa.PublicKey{Curve: curve, X: number("x"), Y: number("y")}
		size := (curve.Params().BitSize + 7) / 8
		put("x", now.X.FillBytes(make([]byte, size)))
		put("y", now.Y.FillBytes(make([]byte, size)))
		return signer{before, now}, nil
	case "OKP":
		before := ed25519.PublicKey(member("x"))
		public, now, err := ed25519.GenerateKey(rand.Reader)
		put("x", public)
		return signer{before, now}, err
	}
	return signer{}, nil
}

var moments = regexp.MustCompile(`("(?:exp|nbf|iat)":\s*"?)(\d{10})\b`)

// again leaves a token as it is if it has not the form of one.
func again(token string, shift int64, signers []signer) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return token, nil
	}
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		return token, nil
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return token, nil
	}
	var named struct {
		Alg string `json:"alg"`
	}
	_ = json.Unmarshal(header, &named)
	text, padding, _ := strings.Cut(parts[2], "=")
	signature, err := base64.RawURLEncoding.DecodeString(text)
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[named.Alg[max(0, len(named.Alg)-3):]]
	isKnown := err == nil && len(signature) > 0 && (hash != 0 && strings.Contains("RS PS ES", named.Alg[:2]) || named.Alg == "EdDSA")
	by := signerOf(signers, named.Alg, hash, []byte(parts[0]+"."+parts[1]), signature)
	claims = moments.ReplaceAllFunc(claims, func(found []byte) []byte {
		groups := moments.FindSubmatch(found)
		at, _ := strconv.ParseInt(string(groups[2]), 10, 64)
		return strconv.AppendInt(groups[1][:len(groups[1]):len(groups[1])], at+shift, 10)
	})
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(claims)
	if !isKnown {
		return signed + "." + parts[2], nil
	}
	if by == nil {
		if by, err = stranger(named.Alg); err != nil {
			return "", err
		}
	}
	made, err := signWith(by, named.Alg, hash, []byte(signed))
	if err != nil {
		return "", err
	}
	signed += "." + base64.RawURLEncoding.EncodeToString(made)
	if padding != "" || strings.HasSuffix(parts[2], "=") {
		signed += "=" + padding
	}
	return signed, nil
}

func signerOf(signers []signer, alg string, hash crypto.Hash, signed, signature []byte) crypto.Signer {
	for _, each := range signers {
		isIts := false
		switch key := each.before.(type) {
		case *rsa.PublicKey:
			if strings.HasPrefix(alg, "RS") {
				isIts = rsa.VerifyPKCS1v15(key, hash, digest(hash, signed), signature) == nil
			} else if strings.HasPrefix(alg, "PS") {
				isIts = rsa.VerifyPSS(key, hash, digest(hash, signed), signature, nil) == nil
			}
		case *ecdsa.PublicKey:
			size := (key.Params().BitSize + 7) / 8
			if strings.HasPrefix(alg, "ES") && len(signature) == 2*size {
				r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
				isIts = ecdsa.Verify(key, digest(hash, signed), r, s)
			}
		case ed25519.PublicKey:
			isIts = alg == "EdDSA" && ed25519.Verify(key, signed, signature)
		}
		if isIts {
			return each.now
		}
	}
	return nil
}

func stranger(alg string) (crypto.Signer, error) {
	switch alg[:2] {
	case "ES":
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[alg]
		return ecdsa.GenerateKey(curve, rand.Reader)
	case "Ed":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return rsa.GenerateKey(rand.Reader, 2048)
}

func signWith(by crypto.Signer, alg string, hash crypto.Hash, signed []byte) ([]byte, error) {
	switch key := by.(type) {
	case *rsa.PrivateKey:
		if strings.HasPrefix(alg, "PS") {
			return rsa.SignPSS(rand.Reader, key, hash, digest(hash, signed), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		}
		return rsa.SignPKCS1v15(rand.Reader, key, hash, digest(hash, signed))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, digest(hash, signed))
		if err != nil {
			return nil, err
		}
		size := (key.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), nil
	}
	return by.Sign(rand.Reader, signed, crypto.Hash(0))
}

func digest(hash crypto.Hash, text []byte) []byte {
	sum := hash.New()
	sum.Write(text)
	return sum.Sum(nil)
}
