package store

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/redis"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/test/internal/rig"
)

// rights returns the words of ACL SETUSER that the documentation gives a user of the store, from its prefix on.
func rights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`ACL SETUSER gateway on '>…' '~mcpgateway:\*' ([^\n` + "`" + `]*)`).FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/operations.md does not say which rights the store needs")
	}
	words := strings.Fields(string(found[1]))
	if !slices.Contains(words, "+eval") {
		t.Fatalf("the rights are %q", words)
	}
	return words
}

// The documented rights are all that a store needs, and a check finds out if one of them is missing.
func TestRights(t *testing.T) {
	words := rights(t)
	addr, _ := rig.StartRedis(t)
	user := func(name string, words ...string) *redis.Store {
		rig.RedisCLI(t, addr, append([]string{"acl", "setuser", name, "on", ">secret", "~test:*"}, words...)...)
		return open(t, redis.Options{Addrs: []string{addr}, Username: name, Password: "secret"})
	}
	s := user("gateway", words...)
	storetest.Run(t, func(*testing.T) store.Store { return s })
	if err := store.Check(t.Context(), s, time.Minute); err != nil {
		t.Error(err)
	}
	without := map[string][]string{"scripting": {"+@all", "-@scripting"}, "hash": {"+@all", "-@hash"}, "few": {"+get", "+set"}}
	for _, word := range words {
		without[strings.TrimPrefix(word, "+")] = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word })
	}
	for missing, words := range without {
		rig.RedisCLI(t, addr, "script", "flush")
		s := user("without-"+missing, words...)
		err := errors.Join(store.Check(t.Context(), s, time.Minute), store.Check(t.Context(), s, time.Minute)) // the second one has run the scripts before
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "permission") && !strings.Contains(err.Error(), "can't run this command") {
			t.Errorf("a user without %s: %v", missing, err)
		}
	}
}

// A store counts as away while its user lacks a right, though other operations succeed.
func TestMissingRight(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	changes := make(chan bool, 10)
	g := store.NewGuarded(open(t, redis.Options{Addrs: []string{addr}}), store.NewMetrics(), func(up bool, _ error) { changes <- up })
	ctx, end := context.WithCancel(t.Context())
	defer end()
	rig.RedisCLI(t, addr, "acl", "setuser", "default", "-@scripting")
	done := make(chan struct{})
	go func() { g.Run(ctx); close(done) }()
	if up := <-changes; up {
		t.Error("the store works")
	}
	if _, _, why := g.Health(); why == nil || !strings.Contains(why.Error(), "NOPERM") {
		t.Errorf("the store is away because of %v", why)
	}
	rig.RedisCLI(t, addr, "acl", "setuser", "default", "+@scripting")
	if up := <-changes; !up {
		t.Error("the store is away though it has been given the right")
	}
	end()
	<-done
}
