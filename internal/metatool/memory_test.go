package metatool

import (
	"strconv"
	"strings"
	"testing"
)

func TestMemoryRemembersEachPrincipal(t *testing.T) {
	var m memory
	m.remember("ann", "a")
	m.remember("ann", "b")
	m.remember("ann", "a")
	m.remember("bob", "c")
	ann := m.of("ann")
	if len(ann) != 2 || ann["a"] != 1 || ann["b"] >= ann["a"] || ann["b"] <= 0 {
		t.Errorf("ann: %v", ann)
	}
	if m.of("eve") != nil {
		t.Error("a principal who has called nothing has a memory")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	m.remember("first", "tool")
	for i := range maxPrincipals {
		m.remember("p"+strconv.Itoa(i), "tool")
	}
	if len(m.byKey) != maxPrincipals || m.recent.Len() != maxPrincipals || m.of("first") != nil {
		t.Errorf("%d principals are remembered, want %d", len(m.byKey), maxPrincipals)
	}
	for i := range 2 * maxRemembered {
		m.remember("p1", strconv.Itoa(i))
	}
	m.remember("p1", strings.Repeat("x", rememberedBytes+1))
	tools := m.of("p1")
	if len(tools) != maxRemembered || tools[strconv.Itoa(2*maxRemembered-1)] != 1 {
		t.Errorf("%d tools are remembered, want the latest %d", len(tools), maxRemembered)
	}
}
