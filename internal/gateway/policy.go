package gateway

import (
	"mcpgateway/internal/config"
	"mcpgateway/internal/policy"
)

// newPolicy translates what the configuration says of who may use what.
func (g *Gateway) newPolicy() (*policy.Policy, error) {
	o := policy.Options{Default: effectOf(g.cfg.Policy.Default), Upstreams: map[string]policy.Upstream{}}
	for _, m := range g.upstreams {
		o.Upstreams[m.name] = m.filter
	}
	return policy.New(o), nil
}

func effectOf(e config.Effect) policy.Effect {
	return map[config.Effect]policy.Effect{config.Allow: policy.Allow}[e] // all else denies
}
