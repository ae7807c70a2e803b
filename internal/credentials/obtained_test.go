package credentials

import (
	"slices"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
)

// Options.Obtained hears of each token before a request has it, also of the tokens of a grant that another process has
// stored, and of those that replace them.
func TestObtainedTokens(t *testing.T) {
	as, c, store := gatewaytest.NewAuthServer(t, clients), newClock(), NewStore("")
	var obtained []string
	hears := func(token string) { obtained = append(obtained, token) }
	own := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}, Now: c.now, Obtained: hears})
	if token := bearer(t, own, nil); !slices.Contains(obtained, token) {
		t.Errorf("the token of the gateway %q is not in %q", token, obtained)
	}
	given := loggedIn(t, as, c, store)
	grants := source(t, Options{Kind: User, URL: given.o.URL, Store: store, Now: c.now, Obtained: hears})
	for range 2 {
		obtained = nil
		token := bearer(t, grants, nil)
		g, err := grants.tokens.(*user).load(t.Context(), localKey)
		if err != nil {
			t.Fatal(err)
		}
		if g.Refresh == "" || !slices.Contains(obtained, token) || !slices.Contains(obtained, g.Refresh) {
			t.Errorf("the token %q or %q is not in %q", token, g.Refresh, obtained)
		}
		c.pass(6 * time.Minute)
	}
}
