package http1server

import (
	"net/http"
	"sync/atomic"
	"time"
)

// date is a value of the header Date.
type date struct {
	second int64
	text   string
}

var latestDate atomic.Pointer[date]

// dateAt returns the header Date for a time. It formats each second once.
func dateAt(now time.Time) string {
	d := latestDate.Load()
	if second := now.Unix(); d == nil || d.second != second {
		d = &date{second, now.UTC().Format(http.TimeFormat)}
		latestDate.Store(d)
	}
	return d.text
}
