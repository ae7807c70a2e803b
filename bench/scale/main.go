package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func main() {
	addr := flag.String("redis", "127.0.0.1:6379", "address of a Redis server, whose database 0 is emptied")
	n := flag.Int("n", 20_000, "how often each operation is measured")
	a := assumptions{}
	for _, f := range []struct {
		into    *float64
		name    string
		value   float64
		meaning string
	}{
		{&a.Streams, "streams", 0.5, "share of the sessions with an open event stream"},
		{&a.Subscribed, "subscribed", 0.1, fmt.Sprintf("share of the sessions with %d subscriptions", subscriptions)},
		{&a.Events, "events", 0.5, "recorded events for each call"},
		{&a.Asks, "asks", 0.01, "share of the calls that ask their user something"},
		{&a.Limited, "limited", 0.2, "share of the calls that a limit counts"},
		{&a.Tasks, "tasks", 0.01, "share of the calls that begin a task"},
		{&a.Results, "results", 0.01, fmt.Sprintf("share of the calls with a long result of %d KiB that is kept, and read at another replica once", resultSize>>10)},
		{&a.Granted, "granted", 0.1, "share of the sessions whose calls use a grant of their user"},
		{&a.ResultLife, "result-life", 3600, "results.ttl in seconds; tasks are kept as long"},
		{&a.ResultsMemory, "results-memory", 256, "results.memory of a replica, in MiB"},
		{&a.Idle, "idle", 1800, "limits.session_idle in seconds"},
		{&a.EventLife, "event-life", 300, "for how long the events of a call that has ended are kept, in seconds"},
		{&a.MaxSessions, "max-sessions", 100_000, "limits.max_sessions"},
		{&a.CallCPU, "call-cpu", 70, "processor time of a call in a replica, in microseconds: json-1k, full, in docs/performance.md"},
		{&a.StreamBytes, "stream-bytes", 32 << 10, "memory of an idle stream in a replica: idle in docs/performance.md"},
	} {
		flag.Float64Var(f.into, f.name, f.value, f.meaning)
	}
	flag.Parse()

	c := newBench(context.Background(), *addr, *n).measure()
	printCosts(c)
	fmt.Println()
	fmt.Println("| replicas | sessions | calls/min of each | calls/s | known to a replica | calls that adopt | processors of a replica | MiB of a replica | operations/s of the store | processors of the store | MiB of the store | of them results |")
	fmt.Println("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, s := range [][3]float64{{3, 10_000, 1}, {10, 100_000, 1}, {100, 1_000_000, 1}, {100, 1_000_000, 10}} {
		a.Replicas, a.Sessions, a.CallsPerMinute = s[0], s[1], s[2]
		d := compute(a, c)
		fmt.Printf("| %.0f | %.0f | %.0f | %.0f | %.0f | %.0f %% | %.2f | %.0f | %.0f | %.2f | %.0f | %.0f |\n", a.Replicas, a.Sessions, a.CallsPerMinute, d.Calls,
			d.KnownSessions, 100*d.Adopted, d.ReplicaCores, d.ReplicaMiB, d.StoreOps, d.StoreCores, d.StoreMiB, d.ResultsMiB)
	}
}

func printCosts(c costs) {
	fmt.Println("| | commands | processor of the store, µs | processor of the replica, µs |")
	fmt.Println("|---|---:|---:|---:|")
	for _, row := range []struct {
		name string
		cost cost
	}{
		{"adopt a session without state", c.Adopt}, {"adopt a session with subscriptions", c.AdoptSubscribed}, {"subscribe", c.Subscribe},
		{"take a call out of a limit, and give it back", c.Limit}, {"record an event", c.Event},
		{"put a task into the book", c.TaskAdd}, {fmt.Sprintf("list %d tasks", tasksEach), c.TaskList},
		{fmt.Sprintf("keep a result of %d KiB", resultSize>>10), c.ResultPut}, {"read it at another replica", c.ResultRead},
		{"read a grant", c.GrantRead}, {"renew a grant", c.GrantRenew},
		{"pass a request to another replica, and its reply back", c.Ask}, {"a note, for each replica that reads it", c.Note},
	} {
		fmt.Printf("| %s | %.1f | %.1f | %.1f |\n", row.name, row.cost.Commands, row.cost.Store, row.cost.Replica)
	}
	fmt.Printf("\nAn idle replica costs the store %.0f µs a second.\n\n", c.Beat)
	fmt.Println("| kept | bytes |\n|---|---|")
	fmt.Println("| in the store for a session without subscriptions and level | 0 |")
	for _, row := range []struct {
		name  string
		bytes float64
	}{
		{fmt.Sprintf("in the store for a session with %d subscriptions", subscriptions), c.SubscribedBytes}, {"in the store for an ended session", c.EndedBytes},
		{"in the store for an event of 500 bytes, ten in a stream", c.EventBytes}, {"in the store for a used token", c.TokenBytes},
		{fmt.Sprintf("in the store for a task with an id of %d bytes", taskID), c.TaskBytes},
		{fmt.Sprintf("in the store for a result of %d KiB", resultSize>>10), c.ResultBytes},
		{fmt.Sprintf("in the store for a grant of %d KiB", grantSize>>10), c.GrantBytes}, {"in a replica for a session without streams", c.SessionBytes},
	} {
		fmt.Printf("| %s | %.0f |\n", row.name, row.bytes)
	}
}

// check ends the program if something failed: there is nothing to measure then.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}
