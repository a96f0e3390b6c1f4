#include "quant/search_loops.h"

namespace kda {

constinit const SearchTable kBaselineSearch = search_table("baseline");

}  // namespace kda
