package fidelity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/raw"
)

// Unknown members of the envelope arrive with responses, and ids are returned unchanged.
func TestEnvelopes(t *testing.T) {
	paths(t, func(t *testing.T, p path) {
		send := func(t *testing.T, c exchange, id string) (raw.Answer, raw.Message) {
			t.Helper()
			mark := p.clientEra + strings.NewReplacer(`"`, "'", `\`, "|").Replace(id)
			params := c.params(p.naming, p.meta(mark, `"token"`))
			body := `{ "x-before":{"z":1e2,"a":9007199254740993},"params":` + params + `,"jsonrpc":"2.0" ,"id":` + id + `,"method":"` + c.method + `"` + envelopeAfter + `}`
			answer, err := p.client.SendBody(bounded(t), c.method, params, body)
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.Response.Member("id"); got != id {
				t.Errorf("the response has id %s, want exactly %s", got, id)
			}
			for _, m := range p.requests(t) {
				if strings.Contains(m.Text, `"mark":`+quote(mark)) {
					return answer, m
				}
			}
			t.Fatal("the server did not receive the request")
			return answer, raw.Message{}
		}
		everything, failing := named("tools/call with everything"), named("tools/call that fails")
		for i, id := range []string{`"\u0041/\/"`, `-0`, `9007199254740993`, `"9007199254740993"`, `0`, `""`} {
			t.Run(fmt.Sprint("id ", id), func(t *testing.T) {
				c := everything
				if i%2 == 1 {
					c = failing
				}
				answer, _ := send(t, c, id)
				for name, want := range map[string]string{"x-before": `{"z":1e2,"a":9007199254740993,"a":1}`, "x-after": `["\u0041",-0]`} {
					if got := answer.Response.Member(name); got != want {
						t.Errorf("%s is %q, want %s", name, got, want)
					}
				}
			})
		}
		// The envelopes of requests and notifications belong to each hop.
		bare := func(t *testing.T, m raw.Message, want ...string) {
			t.Helper()
			names := m.Names()
			slices.Sort(names)
			if !slices.Equal(names, want) {
				t.Errorf("%s has members %q, want %q", m.Method(), names, want)
			}
		}
		t.Run("notification", func(t *testing.T) {
			answer, _ := send(t, everything, `"n"`)
			for _, m := range answer.Before {
				bare(t, m, "jsonrpc", "method", "params")
			}
		})
		t.Run("request", func(t *testing.T) {
			_, received := send(t, everything, `"r"`)
			bare(t, received, "id", "jsonrpc", "method", "params")
		})
	})
}

func named(name string) exchange {
	return calls[slices.IndexFunc(calls, func(c exchange) bool { return c.name == name })]
}
