#include <sys/types.h>  // bad

#include <memory>
