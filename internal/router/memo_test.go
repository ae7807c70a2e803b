package router

import (
	"sync"
	"testing"
)

func TestMemo(t *testing.T) {
	var mu sync.Mutex
	found := map[string]int{}
	m := memo[string, *string]{find: func(key string) *string {
		mu.Lock()
		defer mu.Unlock()
		found[key]++
		return &key
	}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				for _, key := range []string{"a", "b", "c"} {
					if got := m.get(key); *got != key {
						t.Errorf("%s for %s", *got, key)
					}
				}
			}
		})
	}
	wg.Wait()
	for key, n := range found {
		if n != 1 {
			t.Errorf("%s was looked up %d times", key, n)
		}
	}
}
