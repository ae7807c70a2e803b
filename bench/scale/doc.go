// Command scale measures what sessions, calls and messages between replicas cost a store in Redis, and computes
// from that what many replicas and sessions need. docs/scale.md has its output.
//
//	redis-server --port 7000 --save '' &
//	go run ./bench/scale -redis 127.0.0.1:7000
package main
