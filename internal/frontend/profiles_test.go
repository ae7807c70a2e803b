package frontend

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// profileTest is a server whose clients name their principal and profile in headers.
type profileTest struct {
	t *testing.T
	s *Server
}

func newProfileTest(t *testing.T) profileTest {
	return profileTest{t, New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Authenticate: func(r *http.Request) (*call.Principal, error) {
		return &call.Principal{Subject: r.Header.Get("X-Api-Key"), Profile: r.Header.Get("X-Profile"), AuthMethod: "api-key"}, nil
	}})}
}

// in sends a message in a session of a principal's profile, "" for none, and returns the
// status, the session and the answer.
func (p profileTest) in(verb, who, profile, session, body string) (status int, opened, answer string) {
	p.t.Helper()
	r := request(p.t, strings.NewReader(body))
	r.Method = verb
	r.Header.Set("X-Api-Key", who)
	r.Header.Set("X-Profile", profile)
	if session != "" {
		r.Header.Set(wire.HeaderSession, session)
	}
	w := do(p.s, r)
	return w.Code, w.Header().Get(wire.HeaderSession), w.Body.String()
}

func (p profileTest) open(who, profile string) string {
	p.t.Helper()
	status, id, answer := p.in(http.MethodPost, who, profile, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	if status != http.StatusOK || id == "" {
		p.t.Fatalf("no session: %d %s", status, answer)
	}
	return id
}

// A session of one profile is unknown in another, for the same principal too: the answer is
// that for a session that never was, whatever is done with it.
func TestSessionsBelongToAProfile(t *testing.T) {
	p := newProfileTest(t)
	for _, at := range []string{"", "coding"} {
		id := p.open("ann", at)
		for _, elsewhere := range []string{"", "coding", "ops"} {
			if elsewhere == at {
				continue
			}
			for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				status, _, answer := p.in(verb, "ann", elsewhere, id, pingBody)
				never, _, unknown := p.in(verb, "ann", elsewhere, "never-was", pingBody)
				if status != http.StatusNotFound || status != never || withoutRequestIDs(t, answer) != withoutRequestIDs(t, unknown) {
					t.Errorf("%s with a session of profile %q in %q: %d %s; one that never was: %d %s", verb, at, elsewhere, status, answer, never, unknown)
				}
			}
		}
		if status, _, answer := p.in(http.MethodPost, "ann", at, id, pingBody); status != http.StatusOK {
			t.Errorf("in its own profile: %d %s", status, answer)
		}
	}
}

// Credentials that are revoked end the sessions of their principal in all profiles; a profile
// that goes ends its sessions, and no others.
func TestEndsOfSessionsInProfiles(t *testing.T) {
	p := newProfileTest(t)
	sessions := make(map[[2]string]string)
	for _, who := range []string{"ann", "bob"} {
		for _, profile := range []string{"", "coding", "ops"} {
			sessions[[2]string{who, profile}] = p.open(who, profile)
		}
	}
	expect := func(ended func(who, profile string) bool) {
		t.Helper()
		for of, id := range sessions {
			status, _, answer := p.in(http.MethodPost, of[0], of[1], id, pingBody)
			if want := map[bool]int{false: http.StatusOK, true: http.StatusNotFound}[ended(of[0], of[1])]; status != want {
				t.Errorf("%s in profile %q: %d %s", of[0], of[1], status, answer)
			}
		}
	}
	p.s.EndProfiles(func(profile string) bool { return profile == "ops" })
	expect(func(_, profile string) bool { return profile == "ops" })
	p.s.Revoke(func(p *call.Principal) bool { return p.Subject == "ann" })
	expect(func(who, profile string) bool { return profile == "ops" || who == "ann" })
}

// The client on a pipe ends with its profile, and its program says why.
func TestStdioEndsWithItsProfile(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	for _, profile := range []string{"", "coding"} {
		in, client := io.Pipe()
		answers, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- s.ServeStdio(t.Context(), call.Local.In(profile), in, out, time.Second)
			out.Close()
		}()
		lines := bufio.NewScanner(answers)
		if _, err := io.WriteString(client, pingBody+"\n"); err != nil || !lines.Scan() {
			t.Fatal("no answer", err)
		}
		s.EndProfiles(func(profile string) bool { return profile == "coding" })
		if profile == "" { // it goes on until its input ends
			if _, err := io.WriteString(client, pingBody+"\n"); err != nil || !lines.Scan() {
				t.Error("a client of another profile was ended:", err)
			}
			client.Close()
		}
		for lines.Scan() {
		}
		if err := <-ended; (err != nil) != (profile == "coding") {
			t.Errorf("in profile %q it ends with %v", profile, err)
		}
		client.Close()
	}
}
