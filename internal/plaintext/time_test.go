package plaintext

import (
	"math/rand/v2"
	"testing"
	"time"
)

const timeForm = "2006-01-02T15:04:05.000Z07:00"

func TestAppendTime(t *testing.T) {
	east := time.FixedZone("east", 3600)
	times := []time.Time{{}, time.Date(2026, 11, 22, 7, 5, 3, 9_999_999, east), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	for range 1000 {
		times = append(times, time.UnixMicro(rand.Int64N(1<<52)))
	}
	for _, at := range times {
		if got, want := string(AppendTime([]byte("at "), at)), "at "+at.UTC().Format(timeForm); got != want {
			t.Errorf("%v is %s, want %s", at, got, want)
		}
	}
}

func BenchmarkAppendTime(b *testing.B) {
	now, room := time.Now(), make([]byte, 0, 64)
	b.Run("format", func(b *testing.B) {
		for b.Loop() {
			now.UTC().AppendFormat(room, timeForm)
		}
	})
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			AppendTime(room, now)
		}
	})
}
