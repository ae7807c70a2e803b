package credentials

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"mcpgateway/internal/gatewaytest"
)

// The user of this machine reads what is wrong with the metadata of a server, and at which URL.
func TestLoginSaysWhere(t *testing.T) {
	named := func(metadata string) string {
		var self string
		self = serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/mcp":
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+self+`/its-metadata"`)
				w.WriteHeader(http.StatusUnauthorized)
			case "/its-metadata":
				if metadata == "" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(metadata))
			}
		})
		return self
	}
	for name, tc := range map[string]struct{ url, want string }{
		"another resource": {
			named(`{"resource":"https://other.example/mcp","authorization_servers":["https://idp.example"]}`),
			`the metadata of the server is about another resource ("https://other.example/mcp": set url to that if it is the server that you mean)`,
		},
		"no resource": {named(`{"a":1}`), `the metadata of the server is about another resource (it names none)`},
		"not found":   {named(""), `the metadata of the server answered HTTP 404 (its URL is URL/its-metadata)`},
		"down":        {"http://127.0.0.1:1", `the metadata of the server cannot be reached (nothing listens on 127.0.0.1:1)`},
	} {
		s := source(t, Options{Kind: User, URL: at(t, tc.url+"/mcp"), Store: NewStore("")})
		err := Login(t.Context(), s, 0, func(string) {})
		if want := strings.ReplaceAll(tc.want, "URL/", tc.url+"/"); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		if errors.Is(err, syscall.ECONNREFUSED) != (name == "down") {
			t.Errorf("%s: %v is taken for the other case", name, err)
		}
	}
}

// The description of a refusal came through the browser. login quotes it on one line, bounded; the page and clients do not get it.
func TestDescriptionOfARefusal(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := userSource(t, as, c, NewStore(""))
	done := make(chan string, 1)
	err := Login(t.Context(), s, 0, func(u string) {
		b := browser(t)
		back := at(t, step(t, b, u))
		q := back.Query()
		back.RawQuery = url.Values{
			"state": q["state"], "iss": q["iss"], "error": {"access_denied"},
			"error_description": {"Your role\n\x1b[31mlacks \"tickets\"" + strings.Repeat("!", 1000)},
		}.Encode()
		go func() {
			_, page := open(t, b, back.String())
			done <- page
		}()
	})
	page := <-done
	const public = "the authorization server refused the grant (access_denied)"
	if err == nil || !strings.HasPrefix(err.Error(), public+`; it says "Your role [31mlacks \"tickets\"!!`) || len(err.Error()) > 400 {
		t.Errorf("login says %v", err)
	}
	const next = "Access was declined there, by you or by its rules. To be asked once more, run gateway login up again."
	if !strings.Contains(page, public+". "+next) || strings.Contains(page, "role") {
		t.Errorf("the page is %s", page)
	}
	var known *Error
	if !errors.As(err, &known) || strings.Contains(known.Error(), "role") || known.Unwrap() != nil {
		t.Errorf("clients and the log get %v", known)
	}
}
