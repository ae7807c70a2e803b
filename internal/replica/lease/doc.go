// Package lease says which replica holds something that only one replica may have.
//
// A lease is a value in the store that ends by itself unless its holder renews it. A replica that holds one
// releases it when the thing is not used any more. The lease of a replica that has died is taken over by one
// of the others.
package lease
