// Package toolschema validates arguments and results of tools against their JSON Schemas
// within bounds, since schemas and values come from peers.
//
// A [Schema] is compiled when it is first needed, never loads another document, and has a
// bounded size. A validation counts its steps and gives up after 100,000 of them, which take
// about a tenth of a second: see [IsUnchecked]. Patterns run in linear time; those that cannot,
// or that would be costly to compile, match everything. A [Budget] bounds the cost of all
// schemas of an upstream, and a [Cache] keeps compiled schemas between builds of the
// catalog.
//
// [RejectArguments] tells a model how to correct its arguments. [ExampleArguments] finds
// arguments that a schema itself gives.
//
// The package is pure. Everything is safe for concurrent use, except a Budget.
package toolschema
