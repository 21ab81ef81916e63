#include "base/dtype.h"
