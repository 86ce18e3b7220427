//! The bindings against the C headers, where those are installed: sizes, offsets, constants, functions.

use farside_verbs_sys::ffi::*;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// C expressions, each with the value that the bindings have for it.
struct Facts(Vec<(String, u64)>);

/// The size of each structure and the offset of each field named.
macro_rules! structs {
    ($facts:ident: $($name:ident { $($field:ident),* $(,)? })*) => {
        $(
            $facts.0.push((format!("sizeof(struct {})", stringify!($name)), size_of::<$name>() as u64));
            $($facts.0.push((
                format!("offsetof(struct {}, {})", stringify!($name), stringify!($field)),
                offset_of!($name, $field) as u64,
            ));)*
        )*
    };
}

/// The value of each constant.
macro_rules! constants {
    ($facts:ident: $($name:ident)*) => {
        $($facts.0.push((stringify!($name).into(), i64::from($name).cast_unsigned()));)*
    };
}

fn facts() -> Facts {
    let mut facts = Facts(Vec::new());
    structs! { facts:
        ibv_device { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_context_ops { alloc_mw, dealloc_mw, poll_cq, req_notify_cq, post_send, post_recv }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        ibv_device_attr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp,
            max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom,
            max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd,
            max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach,
            max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay,
            phys_port_cnt,
        }
        ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr,
            pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width,
            active_speed, phys_state, link_layer, flags, port_cap_flags2,
        }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_mw { context, pd, rkey, handle }
        ibv_mw_bind_info { mr, addr, length, mw_access_flags }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed }
        ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl,
            dlid_path_bits,
        }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap,
            ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
            rate_limit,
        }
        ibv_qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond,
            events_completed,
        }
        ibv_sge { addr, length, lkey }
        ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr, bind_mw }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_async_event { element, event_type }
        rdma_event_channel { fd }
        rdma_ib_addr { sgid, dgid, pkey }
        rdma_addr { src_storage, dst_storage, addr }
        rdma_route { addr, path_rec, num_paths }
        rdma_cm_id {
            verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq, recv_cq_channel,
            recv_cq, srq, pd, qp_type,
        }
        rdma_conn_param {
            private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count,
            rnr_retry_count, srq, qp_num,
        }
        rdma_ud_param { private_data, private_data_len, ah_attr, qp_num, qkey }
        rdma_cm_event { id, listen_id, event, status, param }
    }
    // What has no name of its own in C.
    for (place, offset) in [
        ("wr.rdma.remote_addr", offset_of!(ibv_wr_rdma, remote_addr)),
        ("wr.rdma.rkey", offset_of!(ibv_wr_rdma, rkey)),
        ("wr.atomic.remote_addr", offset_of!(ibv_wr_atomic, remote_addr)),
        ("wr.atomic.compare_add", offset_of!(ibv_wr_atomic, compare_add)),
        ("wr.atomic.swap", offset_of!(ibv_wr_atomic, swap)),
        ("wr.atomic.rkey", offset_of!(ibv_wr_atomic, rkey)),
    ] {
        let offset = offset_of!(ibv_send_wr, wr) + offset;
        facts.0.push((format!("offsetof(struct ibv_send_wr, {place})"), offset as u64));
    }
    for (place, offset) in [
        ("bind_mw.mw", offset_of!(ibv_wr_bind_mw, mw)),
        ("bind_mw.rkey", offset_of!(ibv_wr_bind_mw, rkey)),
        ("bind_mw.bind_info", offset_of!(ibv_wr_bind_mw, bind_info)),
    ] {
        let offset = offset_of!(ibv_send_wr, bind_mw) + offset;
        facts.0.push((format!("offsetof(struct ibv_send_wr, {place})"), offset as u64));
    }
    let invalidate_rkey = offset_of!(ibv_send_wr, imm_data) as u64;
    facts.0.push(("offsetof(struct ibv_send_wr, invalidate_rkey)".into(), invalidate_rkey));
    // Its name is a word of Rust's.
    facts.0.push(("offsetof(struct ibv_mw, type)".into(), offset_of!(ibv_mw, type_) as u64));
    facts.0.push(("sizeof(union ibv_gid)".into(), size_of::<ibv_gid>() as u64));
    facts.0.push(("_Alignof(union ibv_gid)".into(), align_of::<ibv_gid>() as u64));
    constants! { facts:
        IBV_DEVICE_MEM_WINDOW_TYPE_2A IBV_DEVICE_MEM_WINDOW_TYPE_2B IBV_ACCESS_MW_BIND IBV_MW_TYPE_2 IBV_WR_LOCAL_INV
        IBV_WR_BIND_MW IBV_QP_DEST_QPN IBV_TRANSPORT_IB IBV_TRANSPORT_IWARP IBV_ATOMIC_NONE IBV_ATOMIC_HCA IBV_ATOMIC_GLOB IBV_PORT_DOWN IBV_PORT_INIT
        IBV_PORT_ARMED IBV_PORT_ACTIVE IBV_LINK_LAYER_INFINIBAND IBV_LINK_LAYER_ETHERNET IBV_ACCESS_LOCAL_WRITE
        IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_ATOMIC IBV_WC_SUCCESS IBV_QPT_RC
        IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_ERR IBV_QP_STATE IBV_QP_AV IBV_QP_PATH_MTU
        IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_MAX_QP_RD_ATOMIC IBV_QP_MAX_DEST_RD_ATOMIC
        IBV_WR_RDMA_WRITE IBV_WR_SEND IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD
        IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_INLINE IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR
        IBV_EVENT_QP_ACCESS_ERR IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR RDMA_PS_TCP
        RDMA_OPTION_ID RDMA_OPTION_ID_TOS RDMA_OPTION_ID_REUSEADDR RDMA_OPTION_ID_ACK_TIMEOUT
        RDMA_CM_EVENT_ADDR_RESOLVED RDMA_CM_EVENT_ADDR_ERROR RDMA_CM_EVENT_ROUTE_RESOLVED RDMA_CM_EVENT_ROUTE_ERROR
        RDMA_CM_EVENT_CONNECT_REQUEST RDMA_CM_EVENT_CONNECT_ERROR RDMA_CM_EVENT_UNREACHABLE RDMA_CM_EVENT_REJECTED
        RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED RDMA_CM_EVENT_DEVICE_REMOVAL RDMA_CM_EVENT_ADDR_CHANGE
        RDMA_CM_EVENT_TIMEWAIT_EXIT
    }
    facts
}

/// The declaration of each function, with the types that the bindings give it, as a pointer that C has to accept. What
/// libibverbs has under a macro of the same name is put in brackets.
const FUNCTIONS: &str = "
struct ibv_device **(*f1)(int *) = ibv_get_device_list;
void (*f2)(struct ibv_device **) = ibv_free_device_list;
struct ibv_context *(*f3)(struct ibv_device *) = ibv_open_device;
int (*f4)(struct ibv_context *) = ibv_close_device;
int (*f5)(struct ibv_context *, struct ibv_async_event *) = ibv_get_async_event;
void (*f6)(struct ibv_async_event *) = ibv_ack_async_event;
int (*f7)(struct ibv_context *, struct ibv_device_attr *) = ibv_query_device;
int (*f8)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *) = (ibv_query_port);
struct ibv_pd *(*f9)(struct ibv_context *) = ibv_alloc_pd;
int (*f10)(struct ibv_pd *) = ibv_dealloc_pd;
struct ibv_mr *(*f11)(struct ibv_pd *, void *, size_t, int) = (ibv_reg_mr);
int (*f12)(struct ibv_mr *) = ibv_dereg_mr;
struct ibv_comp_channel *(*f13)(struct ibv_context *) = ibv_create_comp_channel;
int (*f14)(struct ibv_comp_channel *) = ibv_destroy_comp_channel;
struct ibv_cq *(*f15)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int) = ibv_create_cq;
int (*f16)(struct ibv_cq *) = ibv_destroy_cq;
int (*f17)(struct ibv_comp_channel *, struct ibv_cq **, void **) = ibv_get_cq_event;
void (*f18)(struct ibv_cq *, unsigned int) = ibv_ack_cq_events;
int (*f19)(struct ibv_qp *, struct ibv_qp_attr *, int) = ibv_modify_qp;
int (*f20)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *) = ibv_query_qp;
struct ibv_context **(*g1)(int *) = rdma_get_devices;
struct rdma_event_channel *(*g2)(void) = rdma_create_event_channel;
void (*g3)(struct rdma_event_channel *) = rdma_destroy_event_channel;
int (*g4)(struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space) = rdma_create_id;
int (*g5)(struct rdma_cm_id *) = rdma_destroy_id;
int (*g6)(struct rdma_cm_id *, struct sockaddr *) = rdma_bind_addr;
int (*g7)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int) = rdma_resolve_addr;
int (*g8)(struct rdma_cm_id *, int) = rdma_resolve_route;
int (*g9)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *) = rdma_create_qp;
void (*g10)(struct rdma_cm_id *) = rdma_destroy_qp;
int (*g11)(struct rdma_cm_id *, struct rdma_conn_param *) = rdma_connect;
int (*g12)(struct rdma_cm_id *, int) = rdma_listen;
int (*g13)(struct rdma_cm_id *, struct rdma_conn_param *) = rdma_accept;
int (*g14)(struct rdma_cm_id *, const void *, uint8_t) = rdma_reject;
int (*g15)(struct rdma_cm_id *) = rdma_disconnect;
int (*g16)(struct rdma_event_channel *, struct rdma_cm_event **) = rdma_get_cm_event;
int (*g17)(struct rdma_cm_event *) = rdma_ack_cm_event;
int (*g18)(struct rdma_cm_id *, int, int, void *, size_t) = rdma_set_option;
";

/// Whether the headers and a compiler are here; says loudly if not, and fails where all tests are required to run.
fn headers_are_here() -> bool {
    let compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    let headers = ["infiniband/verbs.h", "rdma/rdma_cma.h"]
        .iter()
        .all(|header| Path::new("/usr/include").join(header).exists());
    if compiler && headers {
        return true;
    }
    let missing =
        "SKIPPED: comparing the bindings with the C headers needs cc, libibverbs-dev and librdmacm-dev";
    assert!(std::env::var_os("FARSIDE_REQUIRE").is_none_or(|which| which != "all"), "{missing}");
    eprintln!("{missing}");
    false
}

#[test]
fn the_bindings_are_those_of_the_headers() {
    if !headers_are_here() {
        return;
    }
    for name in Ibverbs::NAMES.iter().chain(Rdmacm::NAMES) {
        let declared = [format!("= {name};"), format!("= ({name});")];
        assert!(declared.iter().any(|end| FUNCTIONS.contains(end)), "{name} is not compared");
    }
    let facts = facts();
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n",
    );
    program.push_str(FUNCTIONS);
    program.push_str("int main(void) {\n");
    for (expression, _) in &facts.0 {
        writeln!(program, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    program.push_str("return 0; }\n");
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc")
        .args(["-Werror=incompatible-pointer-types", "-o"])
        .arg(&binary)
        .arg(&source)
        .args(["-libverbs", "-lrdmacm"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&binary).output().unwrap();
    let values = String::from_utf8(output.stdout).unwrap();
    let values: Vec<u64> = values.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), facts.0.len());
    for ((expression, ours), theirs) in facts.0.iter().zip(values) {
        assert_eq!(*ours, theirs, "{expression}: {ours} here, {theirs} in the headers");
    }
}
