package toolschema

import (
	"errors"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestBudget(t *testing.T) {
	b := NewBudget()
	s := New(wire.Raw(`{"allOf":[` + strings.Repeat(`{},`, 1000) + `{}]}`))
	n := 0
	for ; ; n++ {
		cost, err := b.Compile(s)
		if errors.Is(err, ErrBudget) {
			break
		}
		if err != nil || cost != s.nodes {
			t.Fatalf("cost %d, %v", cost, err)
		}
	}
	if want := MaxUpstreamNodes / s.nodes; n != want {
		t.Errorf("%d schemas, want %d", n, want)
	}
	if cost, err := (*Budget)(nil).Compile(s); err != nil || cost != s.nodes {
		t.Errorf("without a budget: cost %d, %v", cost, err)
	}
}
