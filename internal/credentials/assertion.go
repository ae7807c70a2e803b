package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Client is the gateway as a client of an authorization server. It authenticates with
// Secret, with PrivateKey, or not at all.
type Client struct {
	ID         string
	Secret     string
	PrivateKey string // in PEM: RSA, EC or Ed25519
	KeyID      string // the kid of assertions, "" for none
}

// clientAuth authenticates a client at a token endpoint. It is immutable.
type clientAuth struct {
	id, secret string
	signer     jose.Signer // nil: by secret, or not at all
}

const (
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"
	methodNone  = "none"

	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	assertionLife = time.Minute
)

func newClientAuth(c Client) (*clientAuth, error) {
	p := &clientAuth{id: c.ID, secret: c.Secret}
	if c.PrivateKey == "" {
		return p, nil
	}
	key, err := parseKey(c.PrivateKey)
	if err != nil {
		return nil, err
	}
	alg, err := algorithm(key)
	if err != nil {
		return nil, err
	}
	o := (&jose.SignerOptions{}).WithType("JWT")
	if c.KeyID != "" {
		o = o.WithHeader("kid", c.KeyID)
	}
	p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	return p, err
}

func parseKey(text string) (crypto.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the private key is not in PEM")
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	return nil, errors.New("the private key is not an RSA, EC or Ed25519 key")
}

// algorithm returns the signature algorithm for a key: one that authorization servers
// must accept, or commonly do.
func algorithm(key crypto.PrivateKey) (jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return jose.RS256, nil
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	case *ecdsa.PrivateKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return jose.ES256, nil
		case 384:
			return jose.ES384, nil
		case 521:
			return jose.ES512, nil
		}
	}
	return "", errors.New("there is no signature algorithm for this kind of private key")
}

// authenticate adds the credentials of the client to the parameters of a token request,
// or returns them as an Authorization header. aud is the audience of assertions; methods
// are the authentication methods of the server, none if it names none.
func (p *clientAuth) authenticate(form url.Values, aud string, methods []string, now time.Time) (header string, err error) {
	switch {
	case p.signer != nil:
		assertion, err := p.assertion(aud, now)
		if err != nil {
			return "", failf("the gateway cannot sign its client assertion").because(err)
		}
		form.Set("client_id", p.id)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	case p.secret == "":
		if p.id != "" {
			form.Set("client_id", p.id)
		}
	case slices.Contains(methods, methodPost) && !slices.Contains(methods, methodBasic):
		form.Set("client_id", p.id)
		form.Set("client_secret", p.secret)
	default: // every server must accept it (RFC 6749, section 2.3.1)
		pair := url.QueryEscape(p.id) + ":" + url.QueryEscape(p.secret)
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)), nil
	}
	return "", nil
}

// assertion returns a JWT that authenticates the client (RFC 7523, section 3).
func (p *clientAuth) assertion(aud string, now time.Time) (string, error) {
	return jwt.Signed(p.signer).Claims(jwt.Claims{
		Issuer: p.id, Subject: p.id, Audience: jwt.Audience{aud}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
}
