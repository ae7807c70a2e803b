package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const audience = "bench" // of the tokens

// addTokens makes access tokens of n principals, all of one length, and starts
// the server of the key that verifies them. Principal i is in group i modulo
// groups.
func (s *stage) addTokens(ctx context.Context, config *gatewayConfig, n, groups int) (tokens []string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: string(jose.ES256), Use: "sig"}}})
	if err != nil {
		return nil, err
	}
	dir := s.newFile("issuer")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "keys.json"), keys, 0o600)); err != nil {
		return nil, err
	}
	server, err := s.role(ctx, role{Kind: roleFiles, Dir: dir})
	if err != nil {
		return nil, err
	}
	issuer := strings.TrimSuffix(server.URL, "/mcp")
	config.Auth = map[string]any{"mode": "jwt", "jwt": []any{map[string]any{"issuer": issuer, "audience": audience, "jwks": issuer + "/keys.json"}}}

	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "1"))
	if err != nil {
		return nil, err
	}
	now := time.Now().Unix()
	for i := range n {
		claims := fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"p%06d","groups":[%q],"iat":%d,"exp":%d}`,
			issuer, audience, i, group(i%groups), now, now+24*3600)
		signed, err := signer.Sign([]byte(claims))
		if err != nil {
			return nil, err
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
