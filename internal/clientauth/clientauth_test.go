package clientauth

import (
	"os"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/inspect"
)

const profiles = `
auth:
  mode: api-key
  api_keys:
    - {id: ann, sha256: 49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1}
    - {id: dev, sha256: ef260e9aa3c673af240d17a2660480361a8e081d1ffeca2a5ed0e3219fc18567, groups: [dev]}
    - {id: ci, sha256: 1b158839f8aa339e89bb50b1603e90ec68e0fd5565fe10a7cb32729fddf7070a, groups: [dev], profiles: [ops]}
    - {id: old, sha256: cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4, profiles: [default]}
upstreams: {clock: {command: x}, notes: {command: x}}
profiles:
  coding: {upstreams: [clock], groups: [dev]}
  ops: {upstreams: [notes]}
`

// The principal of --as is in the profile that it would get.
func TestAssume(t *testing.T) {
	cfg, err := config.Parse("gateway.yaml", []byte(profiles), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ subject, profile, want, remark, refused string }{
		{"ann", "", "", "", ""},
		{"ann", "coding", "coding", "", ""},
		{"dev", "", "coding", "by its groups", ""},
		{"dev", "default", "coding", "at /mcp/default dev gets the profile coding, by its groups: this is that profile", ""},
		{"dev", "ops", "ops", "", ""},
		{"ci", "", "ops", "pinned", ""},
		{"ci", "coding", "coding", "", "ci is pinned to ops: for it there is no profile coding"},
		{"ci", "default", "ops", "at /mcp/default ci gets the profile ops, since it is pinned to ops: this is that profile", ""},
		{"old", "default", "", "", ""},
	} {
		p, remarks, refused, err := Assume(cfg, &call.Principal{Subject: tt.subject}, tt.profile)
		if err != nil || p.Profile != tt.want || refused != tt.refused || (tt.remark == "") != (len(remarks) == 0) || !strings.Contains(strings.Join(remarks, " "), tt.remark) {
			t.Errorf("%+v: %+v, %q, %v", tt, p, remarks, err)
		}
	}
}

// The principal of --as authenticates in the way in which the configuration knows its subject.
func TestAssumeMethod(t *testing.T) {
	const keys = `api_keys: [{id: ci, groups: [dev], sha256: 49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1}]`
	const certificates = `mtls: [{cn: "agent-*", groups: [agents]}]`
	const tokens = `jwt: [{issuer: "https://idp.example.com"}]`
	for _, tt := range []struct{ modes, as, method, groups, remark string }{
		{"api-key", "ci", "api-key", "dev", ""},
		{"api-key", "x", "api-key", "", `no API key for "x": the answer is for the groups and scopes of --as alone`},
		{"api-key, mtls", "agent-7", "mtls", "agents", ""},
		{"mtls, api-key", "ci", "api-key", "dev", ""},
		{"api-key, mtls", "x", "mtls", "", `no API key and no certificate for "x"`},
		{"api-key, mtls", "agent-7,proof=api-key", "api-key", "", `no API key for "agent-7"`},
		{"jwt", "ann", "jwt", "", ""},
		{"api-key, jwt", "ci", "api-key", "dev", ""},
		{"jwt, api-key", "ann,group=ops", "jwt", "ops", ""},
		{"api-key, jwt", "ann", "jwt", "", `no API key for "ann": the answer is for a token without groups and scopes`},
		{"api-key, jwt", "ci,issuer=https://idp.example.com", "jwt", "", ""},
		{"api-key", "ann,proof=jwt", "jwt", "", "no client authenticates with jwt"},
	} {
		parts := map[string]string{"api-key": keys, "mtls": certificates, "jwt": tokens}
		text := "public_url: https://gw.example.com\ntls: {cert: c.pem, key: k.pem, client_ca: ca.pem}\nauth:\n  mode: [" + tt.modes + "]\n"
		for m := range strings.SplitSeq(tt.modes, ", ") {
			text += "  " + parts[m] + "\n"
		}
		cfg, err := config.Parse("gateway.yaml", []byte(text+"upstreams: {clock: {command: x}}\n"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		as, err := inspect.ParsePrincipal(tt.as)
		if err != nil {
			t.Fatal(err)
		}
		p, remarks, _, err := Assume(cfg, as, "")
		if err != nil {
			t.Fatal(err)
		}
		if p.AuthMethod != tt.method || strings.Join(p.Groups, " ") != tt.groups || p.AuthMethod == "jwt" && tt.remark == "" && p.Issuer == "" {
			t.Errorf("%+v: %+v", tt, p)
		}
		if (tt.remark == "") != (len(remarks) == 0) || !strings.Contains(strings.Join(remarks, " "), tt.remark) {
			t.Errorf("%+v: %q", tt, remarks)
		}
	}
}

// Keys of one subject may differ, the id of a key is no subject, and claims give what the configuration
// says that they give.
func TestAssumeRights(t *testing.T) {
	const configuration = `
public_url: https://gw.example.com
auth:
  mode: [api-key, jwt]
  api_keys:
    - {id: ci, subject: zed, groups: [bots], sha256: 49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1}
    - {id: ci-2, subject: zed, groups: [ops], profiles: [ops], sha256: ef260e9aa3c673af240d17a2660480361a8e081d1ffeca2a5ed0e3219fc18567}
    - {id: ci-0, subject: zed, scopes: [all], expires: 2020-01-01, sha256: 1b158839f8aa339e89bb50b1603e90ec68e0fd5565fe10a7cb32729fddf7070a}
    - {id: same, subject: pat, groups: [a, b], sha256: cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4}
    - {id: same-2, subject: pat, groups: [b, a], sha256: abababababababababababababababababababababababababababababababab}
  scope_hierarchy: [{scope: write, implies: [read]}]
  jwt:
    - {issuer: "https://one.example.com", claims: {groups: realm_access.roles, scopes: scp}}
    - {issuer: "https://two.example.com", profiles_claim: profiles}
upstreams: {clock: {command: x}}
profiles: {ops: {upstreams: [clock]}}
`
	cfg, err := config.Parse("gateway.yaml", []byte(configuration), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	const one, two = ",issuer=https://one.example.com", ",issuer=https://two.example.com"
	for _, tt := range []struct{ as, groups, scopes, profile, remark string }{
		{"zed", "ops", "", "ops", "2 API keys have the subject zed and differ in groups and profiles: this answer is for the key ci-2; gateway explain --token @FILE judges one key"},
		{"zed,group=x", "x", "", "ops", "differ in profiles: this answer is for the key ci-2"},
		{"pat", "b a", "", "", ""},
		{"ci", "", "", "", `"ci" is the id of an API key whose subject is zed: write zed instead`},
		{`eve,claim.realm_access.roles=["ops"],claim.scp=write` + one, "ops", "write read", "", ""},
		{`eve,group=x,claim.realm_access.roles=["ops"],claim.scp=write` + one, "x", "write read", "", ""},
		{`eve,scope=x,claim.realm_access.roles=ops,claim.scp=write` + one, "ops", "x", "", ""},
		{"eve,claim.realm_access.roles=7" + one, "", "", "", "the claim realm_access.roles is missing or malformed: the gateway refuses such a token"},
		{"eve,claim.groups=dev,claim.profiles=ops" + two, "dev", "", "ops", "pinned"},
		{"eve,claim.groups=dev" + two, "", "", "", "the claim profiles is missing or malformed"},
		{"eve,claim.groups=dev", "", "", "", "auth.jwt has 2 issuers: name the one whose token has these claims, as issuer=https://one.example.com"},
	} {
		as, err := inspect.ParsePrincipal(tt.as)
		if err != nil {
			t.Fatal(err)
		}
		p, remarks, _, err := Assume(cfg, as, "")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(p.Groups, " ") != tt.groups || strings.Join(p.Scopes, " ") != tt.scopes || p.Profile != tt.profile {
			t.Errorf("%+v: %+v", tt, p)
		}
		if (tt.remark == "") != (len(remarks) == 0) || !strings.Contains(strings.Join(remarks, " "), tt.remark) {
			t.Errorf("%+v: %q", tt, remarks)
		}
	}
}

// A reload names the keys that were changed or removed, and says whether rules of certificates differ.
func TestReload(t *testing.T) {
	parse := func(keys, cn string) *config.Config {
		cfg, err := config.Parse("gateway.yaml", []byte("listen: 127.0.0.1:0\ntls: {cert: c, key: k, client_ca: a}\nauth: {mode: [api-key, mtls], api_keys: ["+keys+"], mtls: [{cn: "+cn+", subject: s}]}\nupstreams: {u: {command: x}}"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	ann := "{id: ann, sha256: " + strings.Repeat("ab", 32) + "}"
	bob := ", {id: bob, sha256: " + strings.Repeat("cd", 32) + "}"
	before := parse(ann+bob, "one")
	a, err := New(before, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		now          *config.Config
		revoked      bool // the key of bob
		certificates bool
	}{
		{parse(ann+bob, "one"), false, false},
		{parse(ann, "one"), true, false},
		{parse(ann, "two"), false, true},
	} {
		keys, certificates, err := Reload(a, before, tt.now)
		revoked := keys.Revoked.Has(&call.Principal{Subject: "bob", AuthMethod: "api-key", KeyID: "bob"})
		if err != nil || revoked != tt.revoked || len(keys.Changed)+len(keys.Shortened) > 0 || certificates != tt.certificates {
			t.Errorf("%v, %v, %v, want %v, %v", keys, certificates, err, tt.revoked, tt.certificates)
		}
		before = tt.now
	}
}
