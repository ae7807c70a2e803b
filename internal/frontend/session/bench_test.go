package session

import "testing"

// BenchmarkOpenID is what a process pays once for a session that another one has opened, and what a
// forged id costs.
func BenchmarkOpenID(b *testing.B) {
	ids := sealedIDs(1)
	good := ids.Seal(testClient(), ann, now).Client.Key
	for name, id := range map[string]string{"good": good, "forged": good[:len(good)-8] + "AAAAAAAA", "random": NewID()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ids.Open(id, ann, now)
			}
		})
	}
}
