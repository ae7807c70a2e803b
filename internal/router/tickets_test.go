package router

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTickets(t *testing.T) {
	m := newMemoryTickets()
	ticket := m.Ticket()
	for i, want := range []bool{true, false, false} {
		if ok, err := m.Spend(t.Context(), ticket, time.Now().Add(time.Hour)); ok != want || err != nil {
			t.Errorf("spent for the %d. time: %v, %v", i+1, ok, err)
		}
	}
	if ok, _ := m.Spend(t.Context(), newMemoryTickets().Ticket(), time.Now()); ok {
		t.Error("the ticket of another process is good")
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryTickets()
		for range maxTickets {
			if ok, err := m.Spend(t.Context(), m.Ticket(), time.Now().Add(time.Minute)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if _, err := m.Spend(t.Context(), m.Ticket(), time.Now().Add(time.Minute)); err == nil {
			t.Error("more tickets than there is room for")
		}
		time.Sleep(time.Minute + 1)
		if ok, err := m.Spend(t.Context(), m.Ticket(), time.Now().Add(time.Minute)); !ok || err != nil || len(m.spent) != 1 {
			t.Errorf("%v, %v, %d tickets are kept that have expired", ok, err, len(m.spent)-1)
		}
	})
}
