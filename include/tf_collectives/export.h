#pragma once

// Marks what the TensorFlow op library, the Python module and the C++ tests may use; all else is hidden.
#define TFC_EXPORT [[gnu::visibility("default")]]
