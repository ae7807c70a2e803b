package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/seal"
	"mcpgateway/internal/wire"
)

var (
	ann = &call.Principal{Subject: "ann", Issuer: "https://issuer.test", AuthMethod: "jwt"}
	bob = &call.Principal{Subject: "bob", Issuer: "https://issuer.test", AuthMethod: "jwt"}
	now = time.UnixMilli(1_795_000_000_123)
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, seal.KeySize) }

// sealedIDs returns ids that are sealed with keys.
func sealedIDs(keys ...byte) *IDs {
	var all [][]byte
	for _, k := range keys {
		all = append(all, key(k))
	}
	return NewIDs(all, time.Minute)
}

func testClient() *call.Client {
	return &call.Client{Revision: wire.Rev20250618, Info: wire.Raw(`{"name":"host","version":"1"}`), Capabilities: wire.Raw(`{"roots":{},"elicitation":{}}`)}
}

// sameClaims reports whether two ids say the same.
func sameClaims(a, b Claims) bool {
	c, d := a.Client, b.Client
	return a.Opened.Equal(b.Opened) && a.Expires.Equal(b.Expires) && c.Key == d.Key && c.Sessionless == d.Sessionless &&
		c.Revision == d.Revision && string(c.Info) == string(d.Info) && string(c.Capabilities) == string(d.Capabilities)
}

// Another process with the key reads from an id what the first one sealed.
func TestSealedIDs(t *testing.T) {
	for name, client := range map[string]*call.Client{
		"usual":       testClient(),
		"bare":        {Revision: wire.Rev20241105},
		"no info":     {Revision: wire.LatestLegacy, Capabilities: wire.Raw(`{}`)},
		"not ASCII":   {Revision: wire.LatestLegacy, Info: wire.Raw("{\"name\":\"h\u00f4te\\u0000\"}")},
		"odd spacing": {Revision: wire.LatestLegacy, Capabilities: wire.Raw("{ \"elicitation\" : {\n}}")},
	} {
		for _, who := range []*call.Principal{ann, ann.In("coding"), call.Anonymous} {
			sealed := sealedIDs(1).Seal(client, who, now)
			opened, err := sealedIDs(2, 1).Open(sealed.Client.Key, who, now.Add(MaxLife-1))
			if err != nil || !sameClaims(sealed, opened) {
				t.Errorf("%s: got %+v, %v; want %+v", name, opened.Client, err, sealed.Client)
			}
			if id := sealed.Client.Key; len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
				t.Errorf("%s: the id is no token: %q", name, id)
			}
			first := sealed.Client.Key
			if again := sealedIDs(1).Seal(client, who, now); again.Client.Key == first {
				t.Errorf("%s: two sessions have one id", name)
			}
		}
	}
}

// An id is valid for at least as long as an idle session is kept.
func TestLifeOfIDs(t *testing.T) {
	for idle, want := range map[time.Duration]time.Duration{time.Minute: MaxLife, 2 * MaxLife: 2 * MaxLife} {
		if c := NewIDs([][]byte{key(1)}, idle).Seal(testClient(), ann, now); c.Expires.Sub(now) != want {
			t.Errorf("idle for %v: valid for %v, want %v", idle, c.Expires.Sub(now), want)
		}
	}
}

// Without keys an id is random, and no id opens.
func TestIDsWithoutKeys(t *testing.T) {
	ids := NewIDs(nil, time.Minute)
	c := ids.Seal(testClient(), ann, now)
	if !c.Expires.IsZero() || len(c.Client.Key) != len(NewID()) {
		t.Errorf("the id is %q, it expires %v", c.Client.Key, c.Expires)
	}
	for _, id := range []string{c.Client.Key, sealedIDs(1).Seal(testClient(), ann, now).Client.Key} {
		if _, err := ids.Open(id, ann, now); err != ErrUnknown {
			t.Errorf("%q opens, error %v", id, err)
		}
	}
}

// The id of a client that describes itself at length stays short: other processes know less of
// its clientInfo, never less of its capabilities. If those are too long, the session ends with its process.
func TestLongDescriptions(t *testing.T) {
	long := strings.Repeat("x", maxID)
	for name, tc := range map[string]struct {
		client *call.Client
		info   string
		sealed bool
	}{
		"a large icon": {&call.Client{Revision: wire.LatestLegacy, Capabilities: wire.Raw(`{"roots":{}}`),
			Info: wire.Raw(`{"icons":[{"src":"data:` + long + `"}],"version":"1","title":"Host","name":"host"}`)}, `{"name":"host","title":"Host","version":"1"}`, true},
		"names of another type": {&call.Client{Revision: wire.LatestLegacy, Info: wire.Raw(`{"name":{"x":"` + long + `"},"version":"1"}`)}, `{"version":"1"}`, true},
		"a long name":           {&call.Client{Revision: wire.LatestLegacy, Info: wire.Raw(`{"name":"` + long + `"}`)}, "", false},
		"long capabilities": {&call.Client{Revision: wire.LatestLegacy, Info: wire.Raw(`{"name":"host"}`),
			Capabilities: wire.Raw(`{"experimental":{"x":"` + long + `"}}`)}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			before := *tc.client
			c := sealedIDs(1).Seal(tc.client, ann, now)
			if c.Client != tc.client || string(tc.client.Info) != string(before.Info) || string(tc.client.Capabilities) != string(before.Capabilities) {
				t.Error("the process that opens the session does not know the whole description")
			}
			opened, err := sealedIDs(1).Open(c.Client.Key, ann, now)
			switch {
			case len(c.Client.Key) > maxID || tc.sealed == c.Expires.IsZero():
				t.Errorf("the id has %d bytes, and expires %v", len(c.Client.Key), c.Expires)
			case !tc.sealed && err != ErrUnknown:
				t.Errorf("the id opens, error %v", err)
			case tc.sealed && (err != nil || string(opened.Client.Info) != tc.info || string(opened.Client.Capabilities) != string(before.Capabilities)):
				t.Errorf("got %s with %s, %v; want %s", opened.Client.Info, opened.Client.Capabilities, err, tc.info)
			}
		})
	}
	// Each length around the bound gives an id within it, or a random one.
	for n := range 1600 {
		c := sealedIDs(1).Seal(&call.Client{Revision: wire.LatestLegacy, Capabilities: wire.Raw(`{"x":"` + strings.Repeat("x", n) + `"}`)}, ann, now)
		if _, err := sealedIDs(1).Open(c.Client.Key, ann, now); len(c.Client.Key) > maxID || (err == nil) == c.Expires.IsZero() {
			t.Fatalf("with %d bytes the id has %d, error %v", n, len(c.Client.Key), err)
		}
	}
}

func TestRefusedIDs(t *testing.T) {
	ids := sealedIDs(1, 2)
	good := ids.Seal(testClient(), ann, now).Client.Key
	in := ids.Seal(testClient(), ann.In("coding"), now).Client.Key
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	_, content, err := ids.sealer.Open(good)
	if err != nil {
		t.Fatal(err)
	}
	modern := testClient()
	modern.Revision = wire.LatestModern
	state := bridge.NewSealer(key(1)).Seal(bridge.State{Kind: idVersion, Text: string(content), Expires: now.Add(time.Hour)}, bridge.Binding{})
	otherPurpose := seal.New("mcpgateway request state", key(1)).Seal(idVersion, content)
	otherMethod := *ann
	otherMethod.AuthMethod = "api-key"
	for name, tc := range map[string]struct {
		id   string
		who  *call.Principal
		at   time.Time
		want error
	}{
		"good":                   {good, ann, now, nil},
		"before its end":         {good, ann, now.Add(MaxLife - 1), nil},
		"at its end":             {good, ann, now.Add(MaxLife), ErrExpired},
		"another principal":      {good, bob, now, ErrForeign},
		"an anonymous one":       {good, call.Anonymous, now, ErrForeign},
		"another method":         {good, &otherMethod, now, ErrForeign},
		"a profile":              {good, ann.In("coding"), now, ErrProfile},
		"the default profile":    {in, ann, now, ErrProfile},
		"another profile":        {in, ann.In("ops"), now, ErrProfile},
		"another's, elsewhere":   {in, bob.In("ops"), now, ErrForeign},
		"expired, and foreign":   {good, bob, now.Add(MaxLife), ErrForeign},
		"empty":                  {"", ann, now, ErrUnknown},
		"of another gateway":     {NewID(), ann, now, ErrUnknown},
		"of other keys":          {sealedIDs(3).Seal(testClient(), ann, now).Client.Key, ann, now, ErrUnknownKey},
		"truncated":              {good[:len(good)-4], ann, now, ErrUnknown},
		"with a line feed":       {good + "\n", ann, now, ErrUnknown},
		"too long":               {good + strings.Repeat("A", maxID), ann, now, ErrUnknown},
		"a request state":        {state, ann, now, ErrUnknown},
		"of another purpose":     {otherPurpose, ann, now, ErrUnknown},
		"of another version":     {ids.sealer.Seal(idVersion+1, content), ann, now, ErrUnknown},
		"with more content":      {ids.sealer.Seal(idVersion, append(slices.Clip(content), 0)), ann, now, ErrUnknown},
		"with less content":      {ids.sealer.Seal(idVersion, content[:len(content)-1]), ann, now, ErrUnknown},
		"without content":        {ids.sealer.Seal(idVersion, nil), ann, now, ErrUnknown},
		"of a modern revision":   {ids.Seal(modern, ann, now).Client.Key, ann, now, ErrUnknown},
		"of an unknown revision": {ids.Seal(&call.Client{Revision: "2031-01-01"}, ann, now).Client.Key, ann, now, ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := ids.Open(tc.id, tc.who, tc.at); err != tc.want || (err == nil) != (c.Client != nil) {
				t.Errorf("got %+v, error %v, want %v", c.Client, err, tc.want)
			}
		})
	}
	for i := range 8 * len(raw) {
		raw[i/8] ^= 1 << (i % 8)
		if c, err := ids.Open(base64.RawURLEncoding.EncodeToString(raw), ann, now); err != ErrUnknown && err != ErrUnknownKey {
			t.Fatalf("with bit %d changed it opens as %+v, error %v", i, c.Client, err)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

// An id that is too long is refused before it is decoded.
func TestIDsAreBoundedBeforeTheyAreDecoded(t *testing.T) {
	ids, long := sealedIDs(1), strings.Repeat("A", 1<<20)
	if n := testing.AllocsPerRun(10, func() { ids.Open(long, ann, now) }); n != 0 {
		t.Errorf("an id that is too long costs %v allocations", n)
	}
}

// An id opens only for its principal in its profile. What is read from it is what was sealed.
func FuzzOpenID(f *testing.F) {
	ids := sealedIDs(1)
	f.Add(ids.Seal(testClient(), ann, now).Client.Key, []byte(`{"name":"host"}`), []byte(`{}`), "coding")
	f.Add("", []byte(nil), []byte(nil), "")
	f.Add(NewID(), bytes.Repeat([]byte("x"), maxID), []byte(`{}`), "x")
	f.Fuzz(func(t *testing.T, text string, info, capabilities []byte, profile string) {
		if c, err := ids.Open(text, bob, now); err == nil {
			t.Errorf("%q opens as %+v", text, c.Client)
		}
		// A content of any form that the gateway itself has sealed does no harm.
		if c, err := ids.Open(ids.sealer.Seal(idVersion, []byte(text)), ann, now); err == nil {
			t.Errorf("the content %q opens as %+v", text, c.Client)
		}
		if info != nil && !json.Valid(info) {
			return // what a client sends was parsed before
		}
		client := &call.Client{Revision: wire.LatestLegacy, Info: info, Capabilities: capabilities}
		who := ann.In(profile)
		sealed := ids.Seal(client, who, now)
		opened, err := ids.Open(client.Key, who, now)
		switch {
		case sealed.Expires.IsZero():
			if err != ErrUnknown {
				t.Errorf("an id that is not sealed: %v", err)
			}
		case err != nil || !opened.Opened.Equal(now) || string(opened.Client.Capabilities) != string(capabilities):
			t.Errorf("got %+v, %v", opened, err)
		case string(opened.Client.Info) != string(info) && string(opened.Client.Info) != string(briefInfo(info)):
			t.Errorf("the info %q opens as %q", info, opened.Client.Info)
		}
		if _, err := ids.Open(client.Key, bob.In(profile), now); err == nil {
			t.Error("it opens for another principal")
		}
		if _, err := ids.Open(client.Key, ann.In(profile+"x"), now); err == nil {
			t.Error("it opens in another profile")
		}
	})
}
