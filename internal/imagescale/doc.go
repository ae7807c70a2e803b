// Package imagescale makes images smaller, so that a model pays less for them.
//
// [Scale] takes PNG, JPEG, GIF and WebP. It decides by the size in the header of an image, and
// decodes no image with more than [MaxPixels]: a few bytes may claim to be gigabytes. An image
// that it cannot scale stays as it is. One image is decoded at a time, which
// bounds the memory in use.
package imagescale
