#pragma once

// What the stand-in's libraries use of one another. The names are in a namespace of its own, so that nothing which
// TensorFlow exports under a CUDA name can take their place.
#define STANDIN_EXPORT __attribute__((visibility("default")))
