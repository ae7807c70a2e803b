package main

import (
	"fmt"
	"slices"
	"strings"
)

// The names of paths that several workloads have.
const (
	pathFull = "full" // the gateway with everything on
)

// workloads returns all workloads in their order in a run. Requirement numbers
// are those of docs/performance.md. scale divides the numbers of streams,
// sessions, tools and so on.
func workloads(scale int) []workload {
	all := []workload{mainWorkload()}
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		all = append(all, sizeWorkload(size, false))
	}
	for _, size := range []int{100, 1 << 10, 64 << 10, 1 << 20} {
		all = append(all, sizeWorkload(size, true))
	}
	return append(all,
		eraWorkload(), clientsWorkload(1), clientsWorkload(256), stdioWorkload(),
		tlsWorkload(true), tlsWorkload(false), http2Workload(),
		listWorkload(10_000/scale, false), listWorkload(10_000/scale, true),
		idleWorkload(10_000/scale), updateWorkload(5000/scale), sessionWorkload(), storeWorkload(), consoleWorkload(scale), pagesWorkload(scale), tracesWorkload(), startWorkload(max(2, 20/scale)),
		growthWorkload(scale), memoryWorkload(max(2, 32/scale)),
		workload{Name: profileWorkload},
	)
}

// against returns the ratios of a path to other paths, for information.
func against(m metric, of string, to ...string) (ratios []ratio) {
	for _, t := range to {
		ratios = append(ratios, ratio{Metric: m, Of: of, To: t})
	}
	return ratios
}

func mainWorkload() workload {
	const size = 1 << 10
	return workload{
		Name:  "json-1k",
		About: "16 legacy clients call a tool whose result has 1 KiB of text. On the path \"full\" the gateway checks API keys, has 200 rules with a condition, of which ten apply to each call, and writes an audit.",
		Paths: []path{
			calls{Via: viaDirect, Size: size}.path(viaDirect),
			calls{Via: viaReverse, Size: size}.path(viaReverse),
			calls{Via: viaNginx, Size: size}.path(viaNginx),
			calls{Via: viaTyped, Size: size}.path(viaTyped),
			calls{Via: viaGateway, Size: size}.path(viaGateway),
			calls{Via: viaGateway, Size: size, Change: everythingOn}.path(pathFull),
		},
		Ratios: []ratio{
			{Metric: perSecond, Of: viaGateway, To: viaReverse, AtLeast: 1.35, Requirement: 1},
			{Metric: perSecond, Of: viaGateway, To: viaNginx, AtLeast: 0.6, Requirement: 1},
			{Metric: perSecond, Of: pathFull, To: viaReverse, AtLeast: 1.15, Requirement: 1},
			{Metric: p99, Of: pathFull, To: viaReverse, AtMost: 1, Requirement: 1},
			{Metric: perSecond, Of: viaGateway, To: viaTyped, AtLeast: 4, Requirement: 1},
			{Metric: cpu, Of: viaGateway, To: viaReverse},
			{Metric: cpu, Of: pathFull, To: viaReverse},
			{Metric: p99, Of: viaGateway, To: viaReverse},
		},
	}
}

// sizeName returns a size as people write it.
func sizeName(size int) string {
	switch {
	case size >= 1<<20:
		return fmt.Sprintf("%d MiB", size>>20)
	case size >= 1<<10:
		return fmt.Sprintf("%d KiB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}

func sizeWorkload(size int, sse bool) workload {
	form, name := "JSON", "json"
	if sse {
		form, name = "event streams", "sse"
	}
	short := strings.NewReplacer(" ", "", "KiB", "k", "MiB", "m", "B", "b").Replace(sizeName(size))
	w := workload{
		Name:  name + "-" + short,
		About: fmt.Sprintf("16 legacy clients call a tool whose result has %s of text. The upstream answers with %s.", sizeName(size), form),
		Ratios: []ratio{
			{Metric: perSecond, Of: viaGateway, To: viaReverse},
			{Metric: perSecond, Of: viaGateway, To: viaNginx},
			{Metric: cpu, Of: viaGateway, To: viaReverse},
			{Metric: p99, Of: viaGateway, To: viaReverse},
		},
	}
	switch size {
	case 64 << 10:
		w.Ratios[0].AtLeast, w.Ratios[0].Requirement = 1, 2
	case 1 << 20:
		w.Ratios[0].AtLeast, w.Ratios[0].Requirement = 0.9, 2
	}
	for _, via := range []string{viaReverse, viaNginx, viaGateway} {
		w.Paths = append(w.Paths, calls{Via: via, Size: size, SSE: sse}.path(via))
	}
	return w
}

func eraWorkload() workload {
	const legacy, modern, up, down = "legacy", "modern", "legacy to modern", "modern to legacy"
	const directLegacy, directModern = "direct legacy", "direct modern"
	direct := func(era string) calls { return calls{Via: viaDirect, Era: era, Size: 1 << 10} }
	via := func(client, upstream string) calls {
		return calls{Via: viaGateway, Era: client, UpstreamEra: upstream, Size: 1 << 10}
	}
	return workload{
		Name:  "eras",
		About: "16 clients of one era call a tool with 1 KiB of text at an upstream of the same era, or of the other one. On the paths \"direct\" there is no gateway: what a modern call costs more there is work of the clients and the upstream.",
		Paths: []path{
			via(eraLegacy, eraLegacy).path(legacy), via(eraModern, eraModern).path(modern),
			via(eraLegacy, eraModern).path(up), via(eraModern, eraLegacy).path(down),
			direct(eraLegacy).path(directLegacy), direct(eraModern).path(directModern),
		},
		Ratios: slices.Concat([]ratio{
			{Metric: perSecond, Of: modern, To: legacy, AtLeast: 0.95, Requirement: 1},
			{Metric: perSecond, Of: up, To: legacy, AtLeast: 0.9, Requirement: 1},
			{Metric: perSecond, Of: down, To: modern, AtLeast: 0.9, Requirement: 1},
		}, against(perSecond, directModern, directLegacy), []ratio{
			{Metric: perSecond, Of: modern, To: legacy, ByOf: directModern, ByTo: directLegacy},
		}, against(cpu, modern, legacy), against(cpu, directModern, directLegacy)),
	}
}

func clientsWorkload(clients int) workload {
	w := workload{
		Name:   fmt.Sprintf("clients-%d", clients),
		About:  fmt.Sprintf("%d legacy clients call a tool with 1 KiB of text.", clients),
		Ratios: slices.Concat(against(perSecond, viaGateway, viaReverse, viaNginx), against(p99, viaGateway, viaReverse)),
	}
	if clients == 1 {
		w.About = "1 legacy client calls a tool with 1 KiB of text."
	}
	for _, via := range []string{viaReverse, viaNginx, viaGateway} {
		w.Paths = append(w.Paths, calls{Via: via, Size: 1 << 10, Clients: clients}.path(via))
	}
	return w
}

func stdioWorkload() workload {
	const overHTTP = "gateway over HTTP"
	return workload{
		Name:  "stdio",
		About: "16 legacy clients call a tool with 1 KiB of text at one upstream over stdio, through the gateway and through the typed proxy.",
		Paths: []path{
			calls{Via: viaTyped, Size: 1 << 10, Stdio: true}.path(viaTyped),
			calls{Via: viaGateway, Size: 1 << 10, Stdio: true}.path(viaGateway),
			calls{Via: viaGateway, Size: 1 << 10}.path(overHTTP),
		},
		Ratios: against(perSecond, viaGateway, viaTyped, overHTTP),
	}
}
