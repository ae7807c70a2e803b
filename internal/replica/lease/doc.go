// Package lease decides which replica holds a resource that only one replica may have.
//
// A lease is a value in the store that expires unless its holder renews it. The holder releases it when the
// resource is no longer used. If the holder dies, another replica takes the lease over.
package lease
