#include <vector>  // bad
