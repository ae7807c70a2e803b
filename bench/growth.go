package main

import (
	"context"
	"fmt"
)

// growthWorkload compares calls at large installations with calls at one of
// each. scale divides the numbers.
func growthWorkload(scale int) workload {
	const (
		one, oneKey = "one of each", "one principal"
		flat        = 0.9 // the least that counts as flat
	)
	upstreams, tools, rules, sessions, principals, rights :=
		max(2, 100/scale), 10_000/scale, 1000/scale, 5000/scale, 10_000/scale, max(2, 100/scale)
	grown := func(change func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error) calls {
		return calls{Via: viaGateway, Size: 1 << 10, Change: func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error {
			config.addRules(1, 1, 0)
			if change == nil {
				return nil
			}
			return change(ctx, s, config, t)
		}}
	}
	// Tokens of modern clients: each call may have another principal. The first
	// calls are the first ones of the principals.
	withTokens := func(n, groups int) calls {
		c := grown(func(ctx context.Context, s *stage, config *gatewayConfig, t *target) (err error) {
			config.addRules(1, 1, groups)
			t.Keys, err = s.addTokens(ctx, config, n, groups)
			return err
		})
		c.Era = eraModern
		c.Background = func(ctx context.Context, _ *stage, _ *gateway, t *target) error {
			first, err := openClient(ctx, t, 0)
			if err != nil {
				return err
			}
			defer first.close()
			for range n {
				if err := first.call(); err != nil {
					return err
				}
			}
			return nil
		}
		return c
	}
	manySessions := grown(func(_ context.Context, _ *stage, config *gatewayConfig, _ *target) error {
		config.Limits = roomFor(sessions)
		return nil
	})
	manySessions.Background = func(ctx context.Context, s *stage, _ *gateway, t *target) error {
		return s.openSessions(ctx, t, sessions)
	}
	name := func(n int, of string) string { return fmt.Sprintf("%d %s", n, of) }
	large := []path{
		grown(func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error {
			upstream, err := s.role(ctx, role{Kind: roleUpstream})
			if err != nil {
				return err
			}
			t.Tools = nil
			for i := range upstreams {
				t.Tools = append(t.Tools, config.addUpstream(fmt.Sprintf("up%03d", i), fmt.Sprintf("%s/%d", upstream.URL, i), eraLegacy))
			}
			return nil
		}).path(name(upstreams, "upstreams")),
		grown(func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error {
			upstream, err := s.role(ctx, role{Kind: roleUpstream, Tools: tools})
			if err != nil {
				return err
			}
			t.Tools = []string{config.addUpstream(gatewayUpstream, upstream.URL, eraLegacy)}
			return nil
		}).path(name(tools, "tools")),
		grown(func(_ context.Context, _ *stage, config *gatewayConfig, _ *target) error {
			config.addRules(rules, 1, 0)
			return nil
		}).path(name(rules, "rules")),
		manySessions.path(name(sessions, "sessions")),
	}
	w := workload{
		Name: "growth",
		About: fmt.Sprintf("16 clients call a tool with 1 KiB of text at a gateway with %d upstreams (each client calls another one), %d tools, %d rules with a condition (one applies to the calls), %d other sessions, or %d principals with %d different rights (each call has another principal; JWT, modern era).",
			upstreams, tools, rules, sessions, principals, rights),
		Paths: append([]path{grown(nil).path(one)}, large...),
	}
	for _, p := range large {
		w.Ratios = append(w.Ratios, ratio{Metric: perSecond, Of: p.Name, To: one, AtLeast: flat, Requirement: 5}, ratio{Metric: cpu, Of: p.Name, To: one})
	}
	all := name(principals, "principals")
	w.Paths = append(w.Paths, withTokens(1, 1).path(oneKey), withTokens(principals, rights).path(all))
	w.Ratios = append(w.Ratios, ratio{Metric: perSecond, Of: all, To: oneKey, AtLeast: flat, Requirement: 5}, ratio{Metric: cpu, Of: all, To: oneKey})
	return w
}

// openSessions opens n sessions and closes their connections. The sessions stay.
func (s *stage) openSessions(ctx context.Context, t *target, n int) error {
	return inParallel(n, openAtOnce, func(i int) error {
		conn, err := connect(ctx, t, i, 1024)
		if err != nil {
			return err
		}
		defer conn.abandon()
		return conn.openSession()
	})
}
