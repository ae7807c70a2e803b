// Package sharedtasks keeps in a store which tasks the principals have begun, at all replicas together.
//
// The [Book] has the public ids of tasks only. They are sealed for their principals, and say which
// upstream and replica have the task. While the store is away, a replica remembers its new tasks and
// removals, and writes them when the store is back.
package sharedtasks
