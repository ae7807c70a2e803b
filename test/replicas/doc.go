// Package replicas tests several gateways that share a store, behind a balancer without affinity: Debian's Redis and HAProxy.
package replicas
