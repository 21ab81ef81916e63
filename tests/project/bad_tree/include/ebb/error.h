#include <string>

#include "ebb/units.h"
