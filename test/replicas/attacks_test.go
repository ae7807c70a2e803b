package replicas

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// twoUsers lets ann and bob in, whose API keys are their names, and asks them before a call of the tool confirmed.
func twoUsers() rig.Config {
	var keys []rig.Config
	for _, who := range []string{"ann", "bob"} {
		sum := sha256.Sum256([]byte(who))
		keys = append(keys, rig.Config{"id": who, "sha256": hex.EncodeToString(sum[:])})
	}
	return rig.Config{
		"auth": rig.Config{"mode": "api-key", "api_keys": keys},
		"policy": rig.Config{"default": "allow", "rules": []rig.Config{
			{"name": "ask-first", "effect": "confirm", "what": rig.Config{"tools": []string{"*__confirmed"}}},
		}},
	}
}

func keyOf(who string) http.Header { return http.Header{"X-Api-Key": {who}} }

// as returns a modern client of a user at each replica.
func as(t *testing.T, r *rig.Replicas, who string) []*raw.Client {
	t.Helper()
	var out []*raw.Client
	for _, g := range r.Gateways {
		c, err := raw.OpenWith(t.Context(), g.URL, raw.Modern, keyOf(who))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

const (
	notIssued   = "it was not issued for this request, or has expired"
	alreadyUsed = "it was already used"
)

// What belongs to one user, or to a deployment with other keys, is worth nothing at any replica.
func TestForeignIDs(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, _ := startAll(t, redisAt(addr), twoUsers())
	strangers, _ := startAll(t, redisAt(addr), twoUsers(), rig.Config{"bridge": rig.Config{"keys": []string{strings.Repeat("ff", 32)}}})
	ctx := t.Context()
	ann, bob, stranger := as(t, r, "ann"), as(t, r, "bob"), as(t, strangers, "ann")
	for _, tool := range []string{"legacy__ask", "modern__ask", "modern__confirmed"} {
		call := park(ctx, t, ann[0], tool)
		for i := range replicas {
			wantFault(t, tool+" of another user", retry(ctx, t, bob[i], call), -32602, notIssued)
			wantFault(t, tool+" at another deployment", retry(ctx, t, stranger[i], call), -32602, notIssued)
		}
		if answer := retry(ctx, t, ann[1], call); answer.Response.Fault() != nil {
			t.Errorf("%s: its own user gets %s", tool, answer.Response.Text)
		}
	}

	open := func(r *rig.Replicas, who string) (session string) {
		c, err := raw.OpenWith(ctx, r.Gateways[0].URL, raw.Legacy, keyOf(who))
		if err != nil {
			t.Fatal(err)
		}
		return c.Session()
	}
	annSession, bobSession, strangeSession := open(r, "ann"), open(r, "bob"), open(strangers, "ann")
	owner := raw.Join(r.Gateways[0].URL, annSession, keyOf("ann"))
	s, err := owner.Begin(ctx, 1, "tools/call", `{"name":"legacy__wait","arguments":{},"_meta":{"progressToken":"p"}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	for i, g := range r.Gateways {
		for _, tt := range []struct {
			name, session, who, event string
			status                    int
		}{
			{"ann's session", annSession, "bob", "", http.StatusNotFound},
			{"ann's session and event", annSession, "bob", s.LastEvent(), http.StatusNotFound},
			{"ann's event", bobSession, "bob", s.LastEvent(), http.StatusBadRequest},
			{"a session of another deployment", strangeSession, "ann", "", http.StatusNotFound},
		} {
			c := raw.Join(g.URL, tt.session, keyOf(tt.who))
			answer, err := c.Send(ctx, "tools/list", `{}`)
			if tt.event != "" {
				answer, err = c.Resume(ctx, tt.event)
			}
			if err != nil || answer.Status != tt.status {
				t.Errorf("%s, replica %d: HTTP %d %s, %v, want %d", tt.name, i+1, answer.Status, answer.Response.Text, err, tt.status)
			}
		}
	}
	// Cancellations of others have no effect.
	for _, c := range []*raw.Client{raw.Join(r.Gateways[1].URL, bobSession, keyOf("bob")), owner} {
		if _, err := c.Post(ctx, http.Header{}, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); err != nil {
			t.Fatal(err)
		}
	}
}

// Of several replicas that get a consent at the same moment one makes the call; a parked call goes on once.
func TestReplayedAtTheSameMoment(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr), twoUsers())
	clients := as(t, r, "ann")
	for round := range 60 {
		tool := []string{"modern__confirmed", "legacy__confirmed", "legacy__ask"}[round%3]
		upstream, name, _ := strings.Cut(tool, "__")
		before := servers[upstream].times(name)
		call := park(t.Context(), t, clients[round%replicas], tool)
		var group sync.WaitGroup
		answers := make([]raw.Answer, 2*replicas)
		for i := range answers {
			group.Go(func() { answers[i] = retry(t.Context(), t, clients[i%replicas], call) })
		}
		group.Wait()
		won := 0
		for _, answer := range answers {
			if answer.Response.Fault() == nil {
				won++
			} else {
				wantFault(t, tool, answer, -32602, alreadyUsed)
			}
		}
		if won == 0 || won > 1 && name == "confirmed" {
			t.Errorf("%s: %d of %d replays got a result", tool, won, len(answers))
		}
		if n := servers[upstream].times(name) - before; n != 1 {
			t.Errorf("%s was made %d times", tool, n)
		}
	}
}

// poison changes what a key has. Each has a name for the test.
var poison = map[string]func(ctx context.Context, db *redis.Client, key, kind, other string) error{
	"random bytes": func(ctx context.Context, db *redis.Client, key, kind, _ string) error {
		return overwrite(ctx, db, key, kind, func(string) string { return rand.Text() })
	},
	"truncated": func(ctx context.Context, db *redis.Client, key, kind, _ string) error {
		return overwrite(ctx, db, key, kind, func(s string) string { return s[:len(s)/2] })
	},
	"one bit": func(ctx context.Context, db *redis.Client, key, kind, _ string) error {
		return overwrite(ctx, db, key, kind, func(s string) string {
			if s == "" {
				return s
			}
			return s[:len(s)-1] + string(s[len(s)-1]^1)
		})
	},
	"huge": func(ctx context.Context, db *redis.Client, key, kind, _ string) error {
		return overwrite(ctx, db, key, kind, func(string) string { return strings.Repeat("x", 4<<20) })
	},
	"moved": func(ctx context.Context, db *redis.Client, key, kind, other string) error {
		if other == "" {
			return nil
		}
		return db.Copy(ctx, other, key, 0, true).Err()
	},
	"of another type": func(ctx context.Context, db *redis.Client, key, kind, _ string) error {
		if err := db.Del(ctx, key).Err(); err != nil {
			return err
		}
		if kind == "string" {
			return db.HSet(ctx, key, "field", "x").Err()
		}
		return db.Set(ctx, key, "x", 0).Err()
	},
}

// overwrite changes all values under a key of a kind.
func overwrite(ctx context.Context, db *redis.Client, key, kind string, change func(string) string) error {
	switch kind {
	case "string":
		return db.SetArgs(ctx, key, change(db.Get(ctx, key).Val()), redis.SetArgs{KeepTTL: true}).Err()
	case "hash":
		for field, value := range db.HGetAll(ctx, key).Val() {
			if err := db.HSet(ctx, key, field, change(value)).Err(); err != nil {
				return err
			}
		}
	case "stream":
		last := db.XRevRangeN(ctx, key, "+", "-", 1).Val()
		if len(last) == 0 {
			return nil
		}
		for field, value := range last[0].Values {
			return db.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: map[string]any{field: change(fmt.Sprint(value))}}).Err()
		}
	}
	return nil
}

// Somebody who can write to the store can make its values worthless, and nothing else: a value that no replica has sealed for its place is refused, counted and
// logged. No replica ends or hangs, and all share again afterwards.
func TestPoisonedStore(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr), twoUsers())
	db := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	ann := as(t, r, "ann")
	for name, change := range poison {
		t.Run(name, func(t *testing.T) {
			w := &withoutStore{r: r, servers: servers}
			c := raw.Join(r.Gateways[0].URL, "", keyOf("ann"))
			answer, err := c.Send(ctx, "initialize", initialize)
			if err != nil {
				t.Fatal(err)
			}
			var session []*raw.Client
			for _, g := range r.Gateways {
				session = append(session, raw.Join(g.URL, answer.Header.Get("Mcp-Session-Id"), keyOf("ann")))
			}
			subscribe(ctx, t, session[0])
			park(ctx, t, ann[0], "legacy__ask")
			before := refused(t, r)
			change := func() {
				if err := changeAll(ctx, db, change); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 { // replicas write anew what they have
				change()
				w.servedEverywhere(t, session)
				w.servedEverywhere(t, ann)
			}
			if name != "of another type" {
				polltest.Until(t, "values are refused", func() bool {
					change() // what was refused meanwhile may have been written anew
					return refused(t, r) > before
				})
			}
			// Everything ends by itself, or is written anew; what is left of another type has no end, and an operator removes it.
			if err := db.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			polltest.UntilNil(t, "the replicas share again", func() error {
				call := park(ctx, t, ann[0], "legacy__ask")
				if answer := retry(ctx, t, ann[1], call); !accepted(answer) {
					return fmt.Errorf("a retry at another replica gets %s", answer.Response.Text)
				}
				return nil
			})
		})
	}
	for i, g := range r.Gateways {
		if n := strings.Count(g.Process.Output(), "something in the store was refused"); n > 100 {
			t.Errorf("replica %d has logged %d times that something was refused", i+1, n)
		}
	}
}

// changeAll changes what all keys have.
func changeAll(ctx context.Context, db *redis.Client, change func(ctx context.Context, db *redis.Client, key, kind, other string) error) error {
	keys, err := db.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	for _, key := range keys {
		kind, other := db.Type(ctx, key).Val(), ""
		for _, k := range keys {
			if k != key && db.Type(ctx, k).Val() == kind {
				other = k
			}
		}
		if err := change(ctx, db, key, kind, other); err != nil && !strings.Contains(err.Error(), "no such key") {
			return fmt.Errorf("%s (%s): %w", key, kind, err)
		}
	}
	return nil
}

// refused returns how many things in the store the replicas have refused.
func refused(t *testing.T, r *rig.Replicas) (sum float64) {
	t.Helper()
	for _, g := range r.Gateways {
		n, err := metric(g.Admin+"/metrics", "mcp_gateway_store_refused_total")
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// A store that comes back empty makes no consent valid again, neither at the replica that has used it nor at another.
func TestConsentAfterTheStoreIsEmpty(t *testing.T) {
	addr, server := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr), twoUsers())
	ctx, ann := t.Context(), as(t, r, "ann")
	used, waiting := park(ctx, t, ann[0], "modern__confirmed"), park(ctx, t, ann[0], "modern__confirmed")
	if answer := retry(ctx, t, ann[1], used); answer.Response.Fault() != nil {
		t.Fatalf("the consent gives %s", answer.Response.Text)
	}
	server.Kill()
	waitStore(t, r, false)
	rig.StartRedisOn(t, addr)
	waitStore(t, r, true)
	for i := range replicas {
		wantFault(t, "a consent that was used", retry(ctx, t, ann[i], used), -32602, alreadyUsed)
		wantFault(t, "a consent of before", retry(ctx, t, ann[i], waiting), -32602, alreadyUsed)
	}
	if n := servers["modern"].times("confirmed"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
	if answer := retry(ctx, t, ann[2], park(ctx, t, ann[0], "modern__confirmed")); answer.Response.Fault() != nil {
		t.Errorf("a new consent gives %s", answer.Response.Text)
	}
}
