package main

import (
	"context"
)

// sessionClient opens and ends sessions on one connection.
type sessionClient struct {
	*connection
	head string // without a session
}

func (t *target) sessionOpener() opener {
	return func(ctx context.Context, number int) (caller, error) {
		conn, err := connect(ctx, t, number, 4096)
		if err != nil {
			return nil, err
		}
		return &sessionClient{conn, conn.head}, nil
	}
}

// call opens a session and ends it, so that the number of sessions stays small.
func (c *sessionClient) call() error {
	c.connection.head = c.head
	if err := c.openSession(); err != nil {
		return err
	}
	return c.endSession()
}

func sessionWorkload() workload {
	w := workload{
		Name:   "sessions",
		About:  "16 clients open legacy sessions (initialize, notifications/initialized) and end them (DELETE). The upstream behind the proxies keeps no state.",
		Ratios: against(perSecond, viaGateway, viaReverse, viaTyped),
	}
	for _, via := range []string{viaReverse, viaTyped, viaGateway} {
		w.Paths = append(w.Paths, calls{Via: via, Size: 100, Sessions: true}.path(via))
	}
	return w
}
