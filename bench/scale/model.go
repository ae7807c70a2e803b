package main

import "math"

// assumptions are what clients do, and what was measured elsewhere.
type assumptions struct {
	Replicas, Sessions float64
	CallsPerMinute     float64 // of each session
	Streams            float64 // share of the sessions that keep an event stream open
	Subscribed         float64 // share of the sessions with subscriptions
	Events             float64 // recorded events for each call
	Asks               float64 // share of the calls that ask their user something
	Limited            float64 // share of the calls that a limit counts
	Tasks              float64 // share of the calls that begin a task
	Results            float64 // share of the calls with a long result that is kept, and read at another replica once
	Granted            float64 // share of the sessions whose calls use a grant of their user, which is renewed once an hour
	ResultLife         float64 // results.ttl in seconds; tasks are kept as long
	ResultsMemory      float64 // results.memory of a replica, in MiB
	Idle               float64 // limits.session_idle in seconds
	EventLife          float64 // for how long the events of a call that has ended are kept, in seconds
	MaxSessions        float64 // limits.max_sessions of a replica

	CallCPU     float64 // processor time of a call in a replica, in microseconds
	StreamBytes float64 // memory of an idle stream in a replica
}

// demand is what everything needs at a time.
type demand struct {
	Calls         float64 // a second, of all
	KnownSessions float64 // in the memory of one replica
	Adopted       float64 // share of the calls whose replica does not know the session
	ReplicaCores  float64
	ReplicaMiB    float64 // without the process itself
	StoreOps      float64 // a second
	StoreCores    float64
	StoreMiB      float64
	ResultsMiB    float64 // part of StoreMiB
	NotesCores    float64 // part of StoreCores
	BeatCores     float64 // part of StoreCores
}

// compute returns the demand for requests that a balancer sends to replicas at random.
func compute(a assumptions, c costs) demand {
	var d demand
	rate := a.CallsPerMinute / 60 // of a session
	d.Calls = a.Sessions * rate

	// A replica sees a session every Replicas/rate seconds on average, and forgets it after Idle, or when its table is full.
	reach := a.Idle * rate / a.Replicas
	known := a.Sessions * (1 - math.Exp(-reach))
	d.KnownSessions = min(known, a.MaxSessions)
	d.Adopted = 1 - d.KnownSessions/a.Sessions

	adopt := (1-a.Subscribed)*c.Adopt.Store + a.Subscribed*c.AdoptSubscribed.Store
	subscribes := a.Sessions * a.Subscribed * subscriptions / 3600 // each session subscribes once an hour
	renewals := a.Sessions * a.Granted / 3600
	grants := a.Granted / (1 + 30*rate/a.Replicas) // reads for each call: a replica uses a grant for 30 s
	elsewhere := (a.Replicas - 1) / a.Replicas     // of the answers to asks
	notes := subscribes
	d.NotesCores = notes * (c.Note.Store * a.Replicas) / 1e6
	d.BeatCores = a.Replicas * c.Beat / 1e6
	d.StoreCores = d.NotesCores + d.BeatCores +
		(d.Calls*(d.Adopted*adopt+a.Events*c.Event.Store+a.Asks*elsewhere*c.Ask.Store+a.Limited*c.Limit.Store+
			a.Tasks*c.TaskAdd.Store+a.Results*(c.ResultPut.Store+c.ResultRead.Store)+grants*c.GrantRead.Store)+
			subscribes*c.Subscribe.Store+renewals*c.GrantRenew.Store)/1e6
	d.StoreOps = d.Calls*(d.Adopted+a.Events+a.Asks*elsewhere*4+a.Limited*2+a.Tasks+a.Results*3+grants) + 5*renewals + subscribes + notes*a.Replicas
	d.ResultsMiB = min(d.Calls*a.Results*c.ResultBytes*a.ResultLife/(1<<20), a.Replicas*a.ResultsMemory)
	d.StoreMiB = (a.Sessions*(a.Subscribed*c.SubscribedBytes+a.Granted*c.GrantBytes)+d.Calls*(a.Events*c.EventBytes*a.EventLife+a.Tasks*c.TaskBytes*a.ResultLife))/(1<<20) + d.ResultsMiB

	adoptOwn := (1-a.Subscribed)*c.Adopt.Replica + a.Subscribed*c.AdoptSubscribed.Replica
	d.ReplicaCores = (d.Calls/a.Replicas*(a.CallCPU+d.Adopted*adoptOwn+a.Events*c.Event.Replica+a.Asks*elsewhere*c.Ask.Replica+a.Limited*c.Limit.Replica+
		a.Tasks*c.TaskAdd.Replica+a.Results*(c.ResultPut.Replica+c.ResultRead.Replica)+grants*c.GrantRead.Replica) +
		notes*c.Note.Replica + renewals/a.Replicas*c.GrantRenew.Replica) / 1e6
	d.ReplicaMiB = (d.KnownSessions*c.SessionBytes + a.Sessions*a.Streams/a.Replicas*a.StreamBytes) / (1 << 20)
	return d
}
