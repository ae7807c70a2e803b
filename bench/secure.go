package main

import "slices"

func tlsWorkload(front bool) workload {
	w := workload{
		Name:   "tls-front",
		About:  "16 legacy clients call a tool with 1 KiB of text over TLS. The upstream has no TLS.",
		Ratios: slices.Concat(against(perSecond, viaGateway, viaReverse, viaNginx), against(cpu, viaGateway, viaReverse)),
	}
	if !front {
		w.Name = "tls-upstream"
		w.About = "16 legacy clients call a tool with 1 KiB of text at an upstream with TLS."
	}
	for _, via := range []string{viaReverse, viaNginx, viaGateway} {
		w.Paths = append(w.Paths, calls{Via: via, Size: 1 << 10, FrontTLS: front, UpstreamTLS: !front}.path(via))
	}
	return w
}

func http2Workload() workload {
	w := workload{
		Name:   "http2",
		About:  "16 legacy clients call a tool with 1 KiB of text over HTTP/2 with TLS, each on a connection of its own.",
		Ratios: slices.Concat(against(perSecond, viaGateway, viaReverse, viaNginx), against(cpu, viaGateway, viaReverse)),
	}
	for _, via := range []string{viaReverse, viaNginx, viaGateway} {
		w.Paths = append(w.Paths, calls{Via: via, Size: 1 << 10, HTTP2: true}.path(via))
	}
	return w
}
