#include "join.h"

void Join(void) {}
void Leave(void) {}
