package upstream

import (
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// complaints log the faults of the server of one conversation, not more often than
// the log can bear.
type complaints struct {
	log   *zap.Logger
	limit *rate.Limiter
}

func newComplaints(log *zap.Logger) complaints { return complaints{log, rate.NewLimiter(1, 10)} }

func (c complaints) complain(what string, fields ...zap.Field) {
	if c.limit.Allow() {
		c.log.Warn(what, fields...)
	}
}
